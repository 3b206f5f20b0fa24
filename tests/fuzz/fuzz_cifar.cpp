// A folder of CIFAR, of which the input is one file: by its first byte the test
// set of CIFAR-10 or of CIFAR-100, or the names of the classes of either.
#include "data/images/dataset.h"
#include "data/options.h"
#include "fuzz.h"

namespace syncopate {
namespace {

constexpr size_t kPixels = 3 * 32 * 32;

// A set of one kind in the folder, with `input` in place of `replaced`.
void write_folder(bool is_cifar100,
                  const std::string& replaced,
                  std::string_view input) {
  const std::string record(kPixels + (is_cifar100 ? 2 : 1), '\1');
  const std::vector<std::string> names =
      is_cifar100
          ? std::vector<std::string>{"train.bin", "test.bin"}
          : std::vector<std::string>{"data_batch_1.bin", "data_batch_2.bin",
                                     "data_batch_3.bin", "data_batch_4.bin",
                                     "data_batch_5.bin", "test_batch.bin"};
  for (const char* const file : {"batches.meta.txt", "fine_label_names.txt"})
    fs::remove(fuzz::scratch_folder() / file);
  for (const std::string& name : names) fuzz::scratch_file(name, record);
  fuzz::scratch_file(replaced, input);
}

// Channels come last, where a record has planes.
void check_pixels(const ImageSet& set,
                  std::string_view records,
                  size_t label_bytes) {
  const auto& pixels = std::get<std::vector<uint8_t>>(set.pixels);
  const size_t record_bytes = label_bytes + kPixels;
  if (records.size() != static_cast<size_t>(set.samples) * record_bytes)
    fuzz::found("samples are not those of the file");
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t sample = i / kPixels, place = i % kPixels;
    const size_t at = sample * record_bytes + label_bytes +
                      place % 3 * (kPixels / 3) + place / 3;
    if (pixels[i] != static_cast<uint8_t>(records[at]))
      fuzz::found("a pixel is not that of the file");
  }
  for (size_t i = 0; i < set.labels.size(); ++i)
    if (set.labels[i] !=
            static_cast<uint8_t>(records[i * record_bytes + label_bytes - 1]) ||
        set.labels[i] >= set.spec.classes)
      fuzz::found("a label is not that of the file, or out of range");
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  if (input.empty()) return;
  const bool is_cifar100 = (input[0] & 1) != 0;
  const bool is_names = (input[0] & 2) != 0;
  input.remove_prefix(1);
  write_folder(is_cifar100,
               is_names
                   ? (is_cifar100 ? "fine_label_names.txt" : "batches.meta.txt")
                   : (is_cifar100 ? "test.bin" : "test_batch.bin"),
               input);
  DataOptions options;
  options.kind = is_cifar100 ? "cifar100" : "cifar10";
  options.path = scratch_folder().string();
  accept_or_refuse(options.path, [&] {
    const Dataset set = load_dataset(options);
    if (!is_names) check_pixels(set.test, input, is_cifar100 ? 2 : 1);
    for (const std::string& name : set.test.class_names)
      if (name.empty() || name.find('\n') != name.npos)
        found("a class without a name");
  });
}
