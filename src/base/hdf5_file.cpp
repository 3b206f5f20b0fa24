#include "base/hdf5_file.h"

#include <hdf5.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace syncopate {
namespace {

static_assert(std::is_same_v<hid_t, int64_t>, "HDF5 before 1.10");

constexpr int kMaxLinks = 1 << 20;  // of a file; more come from a cycle

std::optional<Error> first_failure;  // of a write

// Why the last call failed: errno where a system call did, else HDF5's word.
struct Cause {
  int error_number = 0;
  std::string text;
};

herr_t note_cause(unsigned n, const H5E_error2_t* entry, void* data) {
  Cause& cause = *static_cast<Cause*>(data);
  const char* text = entry->desc ? entry->desc : "";
  if (n == 0) cause.text = text;  // walking upward: the innermost
  const char* mark = std::strstr(text, "errno = ");
  if (mark && cause.error_number == 0)
    cause.error_number = std::atoi(mark + std::strlen("errno = "));
  return 0;
}

Cause last_cause() {
  Cause cause;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_cause, &cause);
  if (cause.error_number != 0) cause.text = std::strerror(cause.error_number);
  for (char& c : cause.text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  if (cause.text.empty()) cause.text = "HDF5 gives no reason";
  return cause;
}

void write_check(bool ok,
                 const std::string& path,
                 const std::string& what,
                 ExitCode code = ExitCode::kIoError) {
  if (first_failure) throw *first_failure;
  if (ok) return;
  const Error error(code, path + ": " + what + ": " + last_cause().text);
  if (code == ExitCode::kIoError) first_failure = error;
  throw error;
}

void read_check(bool ok, const std::string& path, const std::string& what) {
  if (ok) return;
  const Cause cause = last_cause();
  fail(cause.error_number ? ExitCode::kIoError : ExitCode::kBadInput,
       "{}: {}: {}", path, what, cause.text);
}

// An open HDF5 object. A failed call's Handle holds a negative id.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0 && !first_failure) close_(id_);
  }
  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }
  bool close() { return close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

hid_t native_type(ElementType type) {
  CHECK(type != ElementType::kOther);
  const hid_t types[] = {H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT32,
                         H5T_NATIVE_INT64, H5T_NATIVE_UINT8};
  return types[static_cast<int>(type)];
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
  return ElementType::kOther;
}

// Every value of the stored type is a value of `wanted`.
bool holds_exactly(ElementType wanted, hid_t stored) {
  const ElementType type = classify(stored);
  if (type == wanted) return true;
  if (wanted == ElementType::kFloat64) return type == ElementType::kFloat32;
  return wanted == ElementType::kInt64 && H5Tget_class(stored) == H5T_INTEGER &&
         H5Tget_size(stored) < sizeof(int64_t);
}

// Creation list of a group (H5P_GROUP_CREATE) or dataset, without times.
Handle creation_list(hid_t kind, const std::string& path) {
  Handle list(H5Pcreate(kind), H5Pclose);
  write_check(list.ok() && H5Pset_obj_track_times(list.get(), false) >= 0, path,
              "creation list");
  return list;
}

}  // namespace

void initialise_hdf5() {
  [[maybe_unused]] static const bool done = [] {
    // The user's choice wins; ours works where a file system has no locks.
    setenv("HDF5_USE_FILE_LOCKING", "BEST_EFFORT", 0);
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLset_loading_state(0);
    return true;
  }();
}

bool hdf5_has_failed() {
  return first_failure.has_value();
}

std::string hdf5_version() {
  initialise_hdf5();
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

// --- writing -----------------------------------------------------------------

Hdf5Writer::Hdf5Writer(const fs::path& path, Seal seal)
    : path_(path.string()), seal_(seal) {
  initialise_hdf5();
  Handle creation = creation_list(H5P_FILE_CREATE, path_);
  if (seal == Seal::kDigest)
    write_check(H5Pset_userblock(creation.get(), kSealBytes) >= 0, path_,
                "user block");
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // The format of 1.10 checksums its metadata, and h5py of any age reads it.
  write_check(access.ok() &&
                  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110,
                                       H5F_LIBVER_V110) >= 0 &&
                  H5Pset_fclose_degree(access.get(), H5F_CLOSE_SEMI) >= 0,
              path_, "access list");
  file_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, creation.get(), access.get());
  write_check(file_ >= 0, path_, "create", ExitCode::kCannotCreate);
}

Hdf5Writer::~Hdf5Writer() {
  if (file_ >= 0 && !first_failure) H5Fclose(file_);
}

void Hdf5Writer::make_group(const std::string& name) {
  CHECK(file_ >= 0 && !name.empty());
  for (size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end + 1);
    const std::string prefix = name.substr(0, end);
    const htri_t exists = H5Lexists(file_, prefix.c_str(), H5P_DEFAULT);
    write_check(exists >= 0, path_, "look for group " + prefix);
    if (exists) continue;
    const Handle creation = creation_list(H5P_GROUP_CREATE, path_);
    Handle group(H5Gcreate2(file_, prefix.c_str(), H5P_DEFAULT, creation.get(),
                            H5P_DEFAULT),
                 H5Gclose);
    write_check(group.ok() && group.close(), path_, "create group " + prefix);
  }
}

void Hdf5Writer::write_raw(const std::string& name,
                           std::span<const int64_t> dims,
                           ElementType type,
                           const void* values,
                           int64_t num_elems) {
  CHECK(file_ >= 0);
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos) make_group(name.substr(0, slash));
  CHECK((Hdf5Dataset{name, type, {dims.begin(), dims.end()}}.elems() ==
         num_elems));
  const hid_t native = native_type(type);
  const Handle creation = creation_list(H5P_DATASET_CREATE, path_);
  if (!dims.empty() && num_elems > 0) {  // others cannot be chunked
    const std::vector<int64_t> shape =
        chunk_shape(dims, static_cast<int64_t>(H5Tget_size(native)));
    const std::vector<hsize_t> chunk(shape.begin(), shape.end());
    write_check(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()),
                             chunk.data()) >= 0 &&
                    H5Pset_fletcher32(creation.get()) >= 0,
                path_, "chunks of " + name);
  }
  const std::vector<hsize_t> extent(dims.begin(), dims.end());
  const Handle space(extent.empty()
                         ? H5Screate(H5S_SCALAR)
                         : H5Screate_simple(static_cast<int>(extent.size()),
                                            extent.data(), nullptr),
                     H5Sclose);
  write_check(space.ok(), path_, "shape of " + name);
  Handle dataset(H5Dcreate2(file_, name.c_str(), native, space.get(),
                            H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                 H5Dclose);
  write_check(dataset.ok(), path_, "create " + name);
  if (num_elems > 0)
    write_check(H5Dwrite(dataset.get(), native, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                         values) >= 0,
                path_, "write " + name);
  write_check(dataset.close(), path_, "write " + name);
}

void Hdf5Writer::write_attribute(const std::string& object,
                                 const std::string& name,
                                 int64_t type,
                                 const void* value) {
  CHECK(file_ >= 0);
  const std::string what = "write attribute " + object + "@" + name;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  write_check(space.ok(), path_, what);
  Handle attribute(
      H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space.get(),
                        H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  write_check(attribute.ok() && H5Awrite(attribute.get(), type, value) >= 0 &&
                  attribute.close(),
              path_, what);
}

void Hdf5Writer::attribute(const std::string& object,
                           const std::string& name,
                           const std::string& text) {
  CHECK(text.find('\0') == std::string::npos);
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  write_check(type.ok() && H5Tset_size(type.get(), H5T_VARIABLE) >= 0 &&
                  H5Tset_cset(type.get(), H5T_CSET_UTF8) >= 0,
              path_, "text type");
  const char* value = text.c_str();
  write_attribute(object, name, type.get(), &value);
}

void Hdf5Writer::attribute(const std::string& object,
                           const std::string& name,
                           int64_t value) {
  write_attribute(object, name, H5T_NATIVE_INT64, &value);
}

void Hdf5Writer::close() {
  CHECK(file_ >= 0);
  write_check(!first_failure && H5Fclose(std::exchange(file_, -1)) >= 0, path_,
              "close");
  if (seal_ == Seal::kDigest) write_seal(path_);
}

// --- reading -----------------------------------------------------------------

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
  if (!first_failure) H5Fclose(file_);
}

namespace {

// Soft, external and user-defined links could lead out of the file.
void require_hard_link(hid_t group,
                       const std::string& name,
                       const std::string& path) {
  H5L_info_t info;
  read_check(H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT) >= 0, path,
             name);
  if (info.type != H5L_TYPE_HARD)
    fail(ExitCode::kBadInput, "{}: {}: a link that is no hard link is refused",
         path, name);
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
  constexpr hsize_t kMaxElems = hsize_t{1} << 56;  // bytes still fit int64
  hsize_t product = 1;
  for (hsize_t dim : extent) {
    if (dim > kMaxElems || (dim != 0 && product > kMaxElems / dim))
      fail(ExitCode::kBadInput, "{}: {}: impossible shape", path, name);
    product *= dim;
    found.dims.push_back(static_cast<int64_t>(dim));
  }
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
    char name[1024];  // longer ones are not ours
    const ssize_t length =
        H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                           sizeof name, H5P_DEFAULT);
    read_check(length >= 0, path, "links of /" + prefix);
    const std::string full = prefix + name;
    // A cycle of hard links makes names grow without end.
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

// Reads into `value` if the attribute is there, holds one value and its type
// is accepted; as `memory_type`, or as stored if that is negative.
bool read_attribute(hid_t file,
                    const std::string& path,
                    const std::string& object,
                    const std::string& name,
                    bool (*accept)(hid_t stored),
                    hid_t memory_type,
                    void* value) {
  const std::string what = "attribute " + object + "@" + name;
  const htri_t exists =
      H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT);
  read_check(exists >= 0, path, what);
  if (exists == 0) return false;
  const Handle attribute(H5Aopen_by_name(file, object.c_str(), name.c_str(),
                                         H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  read_check(attribute.ok(), path, what);
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

}  // namespace syncopate
