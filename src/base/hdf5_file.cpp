#include "base/hdf5_file.h"

#include <hdf5.h>
#include <hdf5_hl.h>

#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/hdf5_handle.h"

namespace syncopate {
namespace {

std::optional<Error> first_failure;  // of any write in this process

void write_check(bool ok,
                 const std::string& path,
                 const std::string& what,
                 ExitCode code = ExitCode::kIoError) {
  if (first_failure) throw *first_failure;
  if (ok) return;
  const Error error(code, path + ": " + what + ": " + last_hdf5_cause().text);
  if (code == ExitCode::kIoError) first_failure = error;
  throw error;
}

// Returns the creation list of a group (H5P_GROUP_CREATE) or dataset, without
// timestamps.
Handle creation_list(hid_t kind, const std::string& path) {
  Handle list(H5Pcreate(kind), H5Pclose);
  write_check(list.ok() && H5Pset_obj_track_times(list.get(), false) >= 0, path,
              "creation list");
  return list;
}

}  // namespace

void initialise_hdf5() {
  [[maybe_unused]] static const bool done = [] {
    // The user's setting takes precedence. Ours also works on file systems
    // without locks, where BEST_EFFORT of 1.10 covers only ENOSYS. A file has a
    // single writer.
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
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

bool is_hdf5(const fs::path& path) {
  initialise_hdf5();
  // HDF5 would wait for the writer of a FIFO.
  std::error_code unknown;
  return fs::is_regular_file(path, unknown) && H5Fis_hdf5(path.c_str()) > 0;
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
  // The 1.10 format checksums its metadata, and every h5py version reads it.
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

void Hdf5Writer::scale(const std::string& of,
                       int axis,
                       const std::string& dataset) {
  CHECK(file_ >= 0);
  const std::string what = "scale " + dataset + " of " + of;
  Handle scale(H5Dopen2(file_, dataset.c_str(), H5P_DEFAULT), H5Dclose);
  Handle series(H5Dopen2(file_, of.c_str(), H5P_DEFAULT), H5Dclose);
  write_check(scale.ok() && series.ok(), path_, what);
  const htri_t is_scale = H5DSis_scale(scale.get());
  const std::string name = dataset.substr(dataset.rfind('/') + 1);
  write_check(
      is_scale >= 0 &&
          (is_scale > 0 || H5DSset_scale(scale.get(), name.c_str()) >= 0) &&
          H5DSattach_scale(series.get(), scale.get(),
                           static_cast<unsigned>(axis)) >= 0 &&
          series.close() && scale.close(),
      path_, what);
}

void Hdf5Writer::label(const std::string& of,
                       int axis,
                       const std::string& text) {
  CHECK(file_ >= 0);
  Handle series(H5Dopen2(file_, of.c_str(), H5P_DEFAULT), H5Dclose);
  write_check(series.ok() &&
                  H5DSset_label(series.get(), static_cast<unsigned>(axis),
                                text.c_str()) >= 0 &&
                  series.close(),
              path_, "label of " + of);
}

void Hdf5Writer::close() {
  CHECK(file_ >= 0);
  write_check(!first_failure && H5Fclose(std::exchange(file_, -1)) >= 0, path_,
              "close");
  if (seal_ == Seal::kDigest) write_seal(path_);
}

}  // namespace syncopate
