#include "data/kinds.h"

#include "data/clicks/click_readers.h"
#include "data/images/readers.h"
#include "data/questions/question_readers.h"
#include "keys/key.h"

namespace syncopate {
const std::vector<DataKind>& data_kind_table() {
  static const std::vector<DataKind> table = {
      {.name = "idx",
       .samples = Samples::kImages,
       .description = "MNIST's format: a folder of four files, plain or .gz",
       .read_images = &read_idx},
      {.name = "cifar10",
       .samples = Samples::kImages,
       .description = "CIFAR-10's binary files",
       .read_images = &read_cifar10,
       .side = 32},
      {.name = "cifar100",
       .samples = Samples::kImages,
       .description = "CIFAR-100's binary files, fine labels",
       .read_images = &read_cifar100,
       .side = 32},
      {.name = "hdf5",
       .samples = Samples::kImages,
       .description = "your own images and labels (inputs/data_formats.md)",
       .read_images = &read_hdf5_images,
       .is_one_file = true},
      {.name = "image_folder",
       .samples = Samples::kImages,
       .description = "train/CLASS/*.jpg and val/CLASS/*.jpg, as in ImageNet",
       .read_images = &read_image_folder,
       .is_read_late = true},
      {.name = "prepared_images",
       .samples = Samples::kImages,
       .description = "an image_folder, converted by prepare images",
       .read_images = &read_prepared_images,
       .is_read_late = true},
      {.name = "synthetic_images",
       .samples = Samples::kImages,
       .description = "procedural classes of any size, seeded",
       .read_images = &make_synthetic_images,
       .is_made = true},
      {.name = "squad",
       .samples = Samples::kQuestions,
       .description = "SQuAD 1.1 (train-v1.1.json, dev-v1.1.json, also .gz)",
       .open_questions = &open_squad},
      {.name = "synthetic_squad",
       .samples = Samples::kQuestions,
       .description = "generated texts and questions, seeded",
       .open_questions = &open_synthetic_squad,
       .is_made = true},
      {.name = "criteo",
       .samples = Samples::kClicks,
       .description = "the challenge's TSV, converted by prepare criteo",
       .read_clicks = &read_criteo},
      {.name = "synthetic_criteo",
       .samples = Samples::kClicks,
       .description = "click records of a known model, seeded",
       .read_clicks = &make_synthetic_criteo,
       .is_made = true},
  };
  return table;
}

const DataKind* find_data_kind(const std::string& name) {
  for (const DataKind& kind : data_kind_table())
    if (kind.name == name) return &kind;
  return nullptr;
}

std::vector<std::string> kinds_of(Samples samples) {
  return names_of<DataKind>(
      data_kind_table(), &DataKind::name,
      [&](const DataKind& kind) { return kind.samples == samples; });
}

bool is_synthetic(const std::string& kind) {
  const DataKind* found = find_data_kind(kind);
  return found != nullptr && found->is_made;
}

}  // namespace syncopate
