// Folders of JPEG files in ImageNet's layout: train/CLASS/*.jpg, and val/ or
// test/ with the same classes, or without any: *.jpg, to be predicted. A
// trained model needs no train/: it is evaluated on any folder of CLASS/*.jpg
// and predicts any folder of *.jpg. Loading lists the files without reading
// them.
#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"
#include "base/text.h"
#include "data/byte_reader.h"
#include "data/images/readers.h"

namespace syncopate {
namespace {

// The sorted names in a folder, without hidden ones.
std::vector<fs::directory_entry> list_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error))
    if (!it->path().filename().string().starts_with('.'))
      entries.push_back(*it);
  if (error)
    fail(ExitCode::kIoError, "{}: cannot be listed: {}", folder.string(),
         error.message());
  for (const fs::directory_entry& entry : entries)
    if (find_invalid_utf8(entry.path().filename().string()))
      fail(ExitCode::kBadInput, "{}/{}: not valid UTF-8: rename it",
           folder.string(), escape_bytes(entry.path().filename().string()));
  std::ranges::sort(entries);
  return entries;
}

std::vector<std::string> list_classes(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : list_folder(folder)) {
    std::error_code ignored;  // a dangling link is not a folder
    if (!entry.is_directory(ignored)) continue;
    const std::string name = entry.path().filename().string();
    if (has_control_character(name))
      fail(ExitCode::kBadInput,
           "{}/{}: a control character in the name of a class: rename it",
           folder.string(), escape_bytes(name));
    names.push_back(name);
  }
  if (names.empty())
    fail(ExitCode::kBadInput, "{}: contains no folders, expected one per class",
         folder.string());
  return names;
}

bool is_jpeg(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg";
}

// `within` is the class's folder in that of the set, or "" for images without
// labels.
void append_images(const fs::path& within, int32_t label, ImageSet& set) {
  auto& files = std::get<JpegFiles>(set.pixels);
  const size_t before = files.names.size();
  for (const auto& entry : list_folder(files.folder / within)) {
    std::error_code ignored;
    if (!is_jpeg(entry.path()) || !entry.is_regular_file(ignored))
      fail(ExitCode::kBadInput, "{}: expected JPEG files in {} (.jpg .jpeg)",
           entry.path().string(),
           within.empty() ? "a folder that holds images itself"
                          : "a class's folder");
    files.names.push_back((within / entry.path().filename()).string());
    set.labels.push_back(label);
  }
  if (files.names.size() == before)
    fail(ExitCode::kBadInput, "{}: a class without an image",
         (files.folder / within).string());
}

// `classes` are those of `owner`, by label. Without labels, the files are in
// `folder` itself.
enum class Labels { kByFolder, kNone };
ImageSet list_set(const fs::path& folder,
                  const std::vector<std::string>& classes,
                  Labels labels,
                  const char* owner = "train") {
  ImageSet set;
  set.pixels = JpegFiles{.folder = folder, .names = {}};
  set.is_labelled = labels == Labels::kByFolder;
  if (!set.is_labelled) append_images("", -1, set);
  for (const std::string& name :
       set.is_labelled ? list_classes(folder) : std::vector<std::string>()) {
    const auto found = std::ranges::find(classes, name);
    if (found == classes.end())
      fail(ExitCode::kBadInput, "{}: a class that {} does not have",
           (folder / name).string(), owner);
    append_images(name, static_cast<int32_t>(found - classes.begin()), set);
  }
  set.samples = std::ssize(set.labels);
  set.spec = {.C = 3, .classes = std::ssize(classes)};
  set.class_names = classes;
  return set;
}

bool holds_images(const fs::path& folder) {
  return std::ranges::any_of(list_folder(folder), [](const auto& entry) {
    return is_jpeg(entry.path());
  });
}

fs::path find_test_folder(const fs::path& folder) {
  for (const char* name : {"val", "test"})
    if (fs::exists(folder / name)) return folder / name;
  fail(ExitCode::kInputMissing, "{}: holds neither val nor test",
       folder.string());
}

bool holds_folders(const fs::path& folder) {
  return std::ranges::any_of(list_folder(folder), [](const auto& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored);
  });
}

// The labelled images of a model's classes. A checkpoint of an earlier version
// does not name them: the folder must then have as many.
ImageSet list_labelled(const fs::path& folder, const TrainedModel& model) {
  const bool has_names = !model.class_names.empty();
  const std::vector<std::string> classes =
      has_names ? model.class_names : list_classes(folder);
  if (std::ssize(classes) != model.classes)
    fail(ExitCode::kBadInput, "{}: {} classes, but the model has {}",
         folder.string(), classes.size(), model.classes);
  return list_set(folder, classes, Labels::kByFolder, "the model");
}

// What a trained model is evaluated on or predicts, without a training set: the
// folder itself or its test folder.
Dataset list_test_set(const DataOptions& options) {
  const fs::path folder = options.path;
  const bool is_test =
      holds_images(folder) ||
      std::ranges::none_of(std::array{"val", "test"}, [&](auto name) {
        return fs::exists(folder / name);
      });
  const fs::path test = is_test ? folder : find_test_folder(folder);
  Dataset data;
  if (holds_images(test))
    data.test = list_set(test, {}, Labels::kNone);
  else if (holds_folders(test))
    data.test = list_labelled(test, options.trained);
  else
    fail(ExitCode::kInputMissing,
         "{}: holds neither *.jpg nor folders of them (other formats are not "
         "read)",
         test.string());
  data.test.spec.classes = options.trained.classes;
  data.train.spec = data.test.spec;
  return data;
}

Dataset list_sets(const fs::path& folder) {
  if (!fs::exists(folder / "train"))
    fail(ExitCode::kInputMissing, "{}: no such folder",
         (folder / "train").string());
  const fs::path test = find_test_folder(folder);
  const std::vector<std::string> classes = list_classes(folder / "train");
  Dataset data;
  data.train = list_set(folder / "train", classes, Labels::kByFolder);
  data.test = list_set(test, classes,
                       holds_images(test) ? Labels::kNone : Labels::kByFolder);
  return data;
}

}  // namespace

Dataset read_image_folder(const DataOptions& options) {
  const fs::path folder = existing_path(options.path);
  Dataset data = may_lack_train(options) && !fs::exists(folder / "train")
                     ? list_test_set(options)
                     : list_sets(folder);
  data.source = "image_folder " + options.path;
  set_reading(options, data);
  return data;
}

void set_reading(const DataOptions& options, Dataset& data) {
  const auto [H, W] = image_size(options);
  constexpr int64_t kSideLimit = 1 << 15, kThreadLimit = 1024;
  for (const auto& [key, side] :
       {std::pair("height", options.height), std::pair("width", options.width)})
    if (side < 0 || side > kSideLimit)
      fail(ExitCode::kBadInput, "data.{}: {}, expected 1 to {}", key, side,
           kSideLimit);
  const int64_t longer = std::max(H, W);
  const int64_t resize = options.eval_resize > 0 ? options.eval_resize
                                                 : (longer * 256 + 112) / 224;
  if (options.eval_resize < 0 || resize < longer)
    fail(ExitCode::kBadInput,
         "data.eval_resize: {}, expected at least {} for images of {} x {}",
         options.eval_resize, longer, H, W);
  if (options.decode_threads < 0 || options.decode_threads > kThreadLimit)
    fail(ExitCode::kBadInput, "data.decode_threads: {}, expected 0 to {}",
         options.decode_threads, kThreadLimit);
  const auto pool = std::make_shared<ThreadPool>(
      options.decode_threads > 0 ? static_cast<int>(options.decode_threads)
                                 : usable_cores());
  for (ImageSet* set : {&data.train, &data.test}) {
    set->spec.H = H;
    set->spec.W = W;
    set->eval_resize = resize;
    set->pool = pool;
  }
}

}  // namespace syncopate
