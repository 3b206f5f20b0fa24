#include <hdf5.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/hdf5_file.h"
#include "base/hdf5_handle.h"

namespace syncopate {
namespace {

constexpr int kMaxLinks = 1 << 20;  // per file; more indicate a cycle

void read_check(bool ok, const std::string& path, const std::string& what) {
  if (ok) return;
  const Hdf5Cause cause = last_hdf5_cause();
  const bool needs_plugin =
      cause.text.find("filter plugins") != std::string::npos;
  fail(cause.error_number ? ExitCode::kIoError : ExitCode::kBadInput,
       "{}: {}: {}{}", path, what, cause.text,
       needs_plugin ? ": rewrite it uncompressed or with gzip" : "");
}

ElementType classify(hid_t type) {
  const size_t bytes = H5Tget_size(type);
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_FLOAT && bytes == 4) return ElementType::kFloat32;
  if (kind == H5T_FLOAT && bytes == 8) return ElementType::kFloat64;
  if (kind != H5T_INTEGER) return ElementType::kOther;
  const bool has_sign = H5Tget_sign(type) == H5T_SGN_2;
  if (bytes == 4 && has_sign) return ElementType::kInt32;
  if (bytes == 8 && has_sign) return ElementType::kInt64;
  if (bytes == 1 && !has_sign) return ElementType::kUint8;
  if (bytes == 8 && !has_sign) return ElementType::kUint64;
  return ElementType::kOther;
}

// Returns whether `wanted` represents every value of the stored type exactly.
bool holds_exactly(ElementType wanted, hid_t stored) {
  const ElementType type = classify(stored);
  if (type == wanted) return true;
  if (wanted == ElementType::kFloat64) return type == ElementType::kFloat32;
  return wanted == ElementType::kInt64 && H5Tget_class(stored) == H5T_INTEGER &&
         H5Tget_size(stored) < sizeof(int64_t);
}

}  // namespace

Hdf5Reader::Hdf5Reader(const fs::path& path) : path_(path.string()) {
  initialise_hdf5();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    fail(ExitCode::kInputMissing, "{}: no such file", path_);
  if (status.type() != fs::file_type::regular)
    fail(ExitCode::kBadInput, "{}: not a regular file", path_);
  file_ = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  read_check(file_ >= 0, path_, "not readable as HDF5");
}

Hdf5Reader::~Hdf5Reader() {
  if (!hdf5_has_failed()) H5Fclose(file_);
}

namespace {

// Rejects soft, external and user-defined links, which could leave the file.
void require_hard_link(hid_t group,
                       const std::string& name,
                       const std::string& path) {
  H5L_info_t info;
  read_check(H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT) >= 0, path,
             name);
  if (info.type != H5L_TYPE_HARD)
    fail(ExitCode::kBadInput,
         "{}: {}: is a soft or external link, expected a hard one", path, name);
}

// A header must not make us allocate more than the file can hold.
void check_stored_bytes(hid_t dataset,
                        double value_bytes,
                        const std::string& name,
                        const std::string& path) {
  constexpr double kDeflateLimit = 1032;  // zlib's technical details
  hsize_t file_bytes = 0;
  const Handle file(H5Iget_file_id(dataset), H5Fclose);
  read_check(file.ok() && H5Fget_filesize(file.get(), &file_bytes) >= 0, path,
             name);
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (value_bytes >
      kDeflateLimit * static_cast<double>(std::min(stored, file_bytes)))
    fail(ExitCode::kBadInput,
         "{}: {}: {:.0f} bytes of values, expected at most {:.0f} times the {} "
         "bytes that hold them",
         path, name, value_bytes, kDeflateLimit, std::min(stored, file_bytes));
}

Hdf5Dataset examine(hid_t dataset,
                    const std::string& name,
                    const std::string& path) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const Handle list(H5Dget_create_plist(dataset), H5Pclose);
  read_check(type.ok() && space.ok() && list.ok(), path, name);
  if (H5Pget_layout(list.get()) == H5D_VIRTUAL ||
      H5Pget_external_count(list.get()) != 0)
    fail(ExitCode::kBadInput, "{}: {}: data outside the file is refused", path,
         name);
  Hdf5Dataset found{name, classify(type.get()), {}};
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> extent(static_cast<size_t>(std::max(rank, 0)));
  read_check(
      H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr) >= 0, path,
      name);
  constexpr hsize_t kMaxElems = hsize_t{1} << 56;  // so that bytes fit int64
  hsize_t product = 1;
  for (hsize_t dim : extent) {
    if (dim > kMaxElems || (dim != 0 && product > kMaxElems / dim))
      fail(ExitCode::kBadInput, "{}: {}: impossible shape", path, name);
    product *= dim;
    found.dims.push_back(static_cast<int64_t>(dim));
  }
  check_stored_bytes(dataset,
                     static_cast<double>(product) *
                         static_cast<double>(H5Tget_size(type.get())),
                     name, path);
  return found;
}

void collect(hid_t group,
             const std::string& prefix,
             const std::string& path,
             int& budget,
             std::vector<Hdf5Dataset>& found) {
  H5G_info_t info;
  read_check(H5Gget_info(group, &info) >= 0, path, "group /" + prefix);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[1024];  // we never write longer ones
    const ssize_t length =
        H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                           sizeof name, H5P_DEFAULT);
    read_check(length >= 0, path, "links of /" + prefix);
    const std::string full = prefix + name;
    // A cycle of hard links yields names of unbounded length.
    if (length >= std::ssize(name) || full.size() > 4096 || --budget < 0)
      fail(ExitCode::kBadInput, "{}: too many names, or too long ones", path);
    require_hard_link(group, name, path);
    const Handle object(H5Oopen(group, name, H5P_DEFAULT), H5Oclose);
    read_check(object.ok(), path, full);
    const H5I_type_t kind = H5Iget_type(object.get());
    if (kind == H5I_GROUP)
      collect(object.get(), full + "/", path, budget, found);
    else if (kind == H5I_DATASET)
      found.push_back(examine(object.get(), full, path));
  }
}

Handle open_dataset(hid_t file,
                    bool exists,
                    const std::string& name,
                    const std::string& path) {
  if (!exists) fail(ExitCode::kBadInput, "{}: no dataset '{}'", path, name);
  Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  read_check(dataset.ok(), path, "open " + name);
  return dataset;
}

std::string attribute_label(const std::string& object,
                            const std::string& name) {
  return "attribute " + object + "@" + name;
}

// Holds a negative id if there is no such attribute.
Handle open_attribute(hid_t file,
                      const std::string& path,
                      const std::string& object,
                      const std::string& name) {
  const std::string what = attribute_label(object, name);
  const htri_t exists =
      H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT);
  read_check(exists >= 0, path, what);
  if (exists == 0) return {-1, H5Aclose};
  Handle attribute(H5Aopen_by_name(file, object.c_str(), name.c_str(),
                                   H5P_DEFAULT, H5P_DEFAULT),
                   H5Aclose);
  read_check(attribute.ok(), path, what);
  return attribute;
}

// Reads into `value` if the attribute exists, holds a single value and has an
// accepted type; as `memory_type`, or as stored if that is negative.
bool read_attribute(hid_t file,
                    const std::string& path,
                    const std::string& object,
                    const std::string& name,
                    bool (*accept)(hid_t stored),
                    hid_t memory_type,
                    void* value) {
  const std::string what = attribute_label(object, name);
  const Handle attribute = open_attribute(file, path, object, name);
  if (!attribute.ok()) return false;
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  read_check(space.ok() && type.ok(), path, what);
  if (H5Sget_simple_extent_npoints(space.get()) != 1 || !accept(type.get()))
    return false;
  const hid_t target = memory_type < 0 ? type.get() : memory_type;
  read_check(H5Aread(attribute.get(), target, value) >= 0, path, what);
  return true;
}

}  // namespace

std::vector<Hdf5Dataset> Hdf5Reader::datasets() const {
  std::vector<Hdf5Dataset> found;
  int budget = kMaxLinks;
  collect(file_, "", path_, budget, found);
  return found;
}

bool Hdf5Reader::has(const std::string& name) const {
  for (size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end + 1);
    const std::string prefix = name.substr(0, end);
    const htri_t exists = H5Lexists(file_, prefix.c_str(), H5P_DEFAULT);
    read_check(exists >= 0, path_, "look for " + prefix);
    if (exists == 0) return false;
    require_hard_link(file_, prefix, path_);
  }
  return true;
}

Hdf5Dataset Hdf5Reader::dataset(const std::string& name) const {
  const Handle dataset = open_dataset(file_, has(name), name, path_);
  return examine(dataset.get(), name, path_);
}

void Hdf5Reader::read_raw(const std::string& name,
                          const std::optional<Rows>& rows,
                          ElementType type,
                          void* values,
                          int64_t num_elems) const {
  const Handle dataset = open_dataset(file_, has(name), name, path_);
  Hdf5Dataset part = examine(dataset.get(), name, path_);
  const Handle stored_type(H5Dget_type(dataset.get()), H5Tclose);
  read_check(stored_type.ok(), path_, name);
  if (!holds_exactly(type, stored_type.get()))
    fail(ExitCode::kBadInput, "{}: {}: {} found, {} expected", path_, name,
         name_of(part.type), name_of(type));
  std::vector<hsize_t> start(part.dims.size(), 0);
  if (rows) {
    CHECK(!start.empty() && rows->first >= 0 && rows->count >= 0 &&
          rows->first + rows->count <= part.dims[0]);
    start[0] = static_cast<hsize_t>(rows->first);
    part.dims[0] = rows->count;
  }
  const std::vector<hsize_t> extent(part.dims.begin(), part.dims.end());
  if (part.elems() != num_elems)
    fail(ExitCode::kBadInput, "{}: {}: {} elements found, {} expected", path_,
         name, part.elems(), num_elems);
  if (num_elems == 0) return;
  const Handle file_space(H5Dget_space(dataset.get()), H5Sclose);
  const hsize_t count = static_cast<hsize_t>(num_elems);
  const Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
  read_check(file_space.ok() && memory.ok(), path_, name);
  if (rows)
    read_check(
        H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(),
                            nullptr, extent.data(), nullptr) >= 0,
        path_, name);
  read_check(H5Dread(dataset.get(), native_type(type), memory.get(),
                     file_space.get(), H5P_DEFAULT, values) >= 0,
             path_, "read " + name);
}

std::vector<std::string> Hdf5Reader::attribute_names(
    const std::string& object) const {
  const Handle holder(H5Oopen(file_, object.c_str(), H5P_DEFAULT), H5Oclose);
  read_check(holder.ok(), path_, "open " + object);
  std::vector<std::string> names;
  const auto note = [](hid_t, const char* name, const H5A_info_t*,
                       void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->push_back(name);
    return 0;
  };
  read_check(H5Aiterate2(holder.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
                         note, &names) >= 0,
             path_, "attributes of " + object);
  return names;
}

std::optional<int64_t> Hdf5Reader::int_attribute(
    const std::string& object,
    const std::string& name) const {
  const auto accept = [](hid_t stored) {
    return holds_exactly(ElementType::kInt64, stored);
  };
  int64_t value = 0;
  if (!read_attribute(file_, path_, object, name, accept, H5T_NATIVE_INT64,
                      &value))
    return std::nullopt;
  return value;
}

std::optional<std::string> Hdf5Reader::text_attribute(
    const std::string& object,
    const std::string& name) const {
  const auto accept = [](hid_t type) { return H5Tis_variable_str(type) > 0; };
  char* value = nullptr;
  if (!read_attribute(file_, path_, object, name, accept, -1, &value))
    return std::nullopt;
  const std::string text = value ? value : "";
  H5free_memory(value);
  return text;
}

std::optional<std::vector<std::string>> Hdf5Reader::texts_attribute(
    const std::string& object,
    const std::string& name) const {
  constexpr size_t kLimitBytes = 1 << 24;
  const std::string what = attribute_label(object, name);
  const Handle attribute = open_attribute(file_, path_, object, name);
  if (!attribute.ok()) return std::nullopt;
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  read_check(space.ok() && type.ok(), path_, what);
  if (H5Tget_class(type.get()) != H5T_STRING ||
      H5Sget_simple_extent_type(space.get()) == H5S_NULL ||
      H5Sget_simple_extent_ndims(space.get()) > 1)
    fail(ExitCode::kBadInput, "{}: {}: neither a text nor a list of texts",
         path_, what);
  const auto num_texts =
      static_cast<size_t>(H5Sget_simple_extent_npoints(space.get()));
  const size_t width = H5Tget_size(type.get());  // of a pointer, if variable
  if (num_texts > kLimitBytes / width)
    fail(ExitCode::kBadInput,
         "{}: {}: {} texts of {} bytes, expected at most {} bytes in all",
         path_, what, num_texts, width, kLimitBytes);
  std::vector<std::string> texts;
  if (num_texts == 0) return texts;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> values(num_texts);
    read_check(H5Aread(attribute.get(), type.get(), values.data()) >= 0, path_,
               what);
    for (char* const value : values) {
      texts.emplace_back(value != nullptr ? value : "");
      H5free_memory(value);
    }
    return texts;
  }
  std::string values(num_texts * width, '\0');
  read_check(H5Aread(attribute.get(), type.get(), values.data()) >= 0, path_,
             what);
  for (size_t i = 0; i < num_texts; ++i) {
    const std::string text = values.substr(i * width, width);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

}  // namespace syncopate
