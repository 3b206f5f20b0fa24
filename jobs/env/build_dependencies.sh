#!/usr/bin/env bash
# Builds the libraries that syncopate needs into a prefix, from pinned sources
# whose SHA-256 is checked, for machines without apt or the right modules.
#   jobs/env/build_dependencies.sh PREFIX [--only NAME,NAME...] [--dry-run]
#                                  [--sources DIR]   where archives are kept
# NAME: zlib mpich hdf5 boost eigen onednn fmt nlohmann_json xxhash utf8proc
# turbojpeg googletest (only for the tests; leave out mpich if the site has an
# MPI that is compatible with MPICH's ABI). Needs a C++20 compiler, CMake, make,
# curl and xz.
# Afterwards:  export SYNCOPATE_PACKAGES=skip CMAKE_PREFIX_PATH=PREFIX
#              export PATH=PREFIX/bin:$PATH
set -euo pipefail

debian=http://deb.debian.org/debian/pool/main
# name  directory-in-archive  SHA-256  address. The digests are those of Debian
# 12's Sources index. Boost's archive there lacks generated files and oneDNN's
# is gone, so these two have the digests of Spack's recipes.
pinned_sources() {
  cat <<END
zlib zlib-1.2.13.dfsg 71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1 $debian/z/zlib/zlib_1.2.13.dfsg.orig.tar.bz2
mpich mpich-4.0.2 b27039f964afeb6b8a3e009c56b441cbe368c26d6d6476ad3bb7190996875860 $debian/m/mpich/mpich_4.0.2.orig.tar.xz
hdf5 hdf5-1.10.8+repack1 7b38e58ff83b13fd8959a90b13bf896bc318ba096c940ab0847abf3ad41a0b31 $debian/h/hdf5/hdf5_1.10.8+repack1.orig.tar.gz
boost boost_1_74_0 83bfc1507731a0906e387fc28b7ef5417d591429e51e788417fe9ff025e116b1 https://archives.boost.io/release/1.74.0/source/boost_1_74_0.tar.bz2
eigen eigen-3.4.0 b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626 $debian/e/eigen3/eigen3_3.4.0.orig.tar.bz2
onednn oneDNN-2.7.3 a50993aa6265b799b040fe745e0010502f9f7103cc53a9525d59646aef006633 https://github.com/oneapi-src/oneDNN/archive/v2.7.3.tar.gz
fmt fmtlib-9.1.0+ds1 84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583 $debian/f/fmtlib/fmtlib_9.1.0+ds1.orig.tar.gz
nlohmann_json json-3.11.2 d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273 $debian/n/nlohmann-json3/nlohmann-json3_3.11.2.orig.tar.gz
xxhash xxHash-0.8.1 3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c $debian/x/xxhash/xxhash_0.8.1.orig.tar.gz
utf8proc utf8proc-2.8.0 a0a60a79fe6f6d54e7d411facbfcc867a6e198608f2cd992490e46f04b1bcecc $debian/u/utf8proc/utf8proc_2.8.0.orig.tar.gz
turbojpeg libjpeg-turbo-2.1.5 254f3642b04e309fee775123133c6464181addc150499561020312ec61c1bf7c $debian/libj/libjpeg-turbo/libjpeg-turbo_2.1.5.orig.tar.gz
googletest googletest-release-1.12.1 81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2 $debian/g/googletest/googletest_1.12.1.orig.tar.gz
END
}

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }
prefix='' only='' dry_run=no sources=''
while (($#)); do
  case $1 in
    --only | --sources) (($# > 1)) || { usage; exit 64; } ;;&
    --only) only=,$2, && shift ;;
    --sources) sources=$2 && shift ;;
    --dry-run) dry_run=yes ;;
    -h | --help) usage; exit 0 ;;
    -*) usage; exit 64 ;;
    *) prefix=$(realpath -m "$1") ;;
  esac
  shift
done
[[ -n $prefix ]] || { usage; exit 64; }
sources=$(realpath -m "${sources:-$prefix/sources}")
jobs=$(nproc)

with_cmake() { # with_cmake OPTION...: in the source's own directory
  cmake -S . -B build-here -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON "$@"
  cmake --build build-here -j "$jobs"
  cmake --install build-here
}
build_zlib() { ./configure --prefix="$prefix" && make -j "$jobs" install; }
build_mpich() {
  ./configure --prefix="$prefix" --disable-fortran --enable-shared \
    --with-device=ch4:ofi
  make -j "$jobs"
  make install
}
build_hdf5() {
  # With zlib, for images that were stored with gzip.
  ./configure --prefix="$prefix" --disable-fortran --disable-cxx \
    --disable-tests --disable-tools --disable-parallel --with-zlib="$prefix"
  make -j "$jobs"
  make install
}
build_boost() {
  sh ./bootstrap.sh --prefix="$prefix" --with-libraries=context,program_options
  ./b2 -j "$jobs" variant=release link=shared cxxstd=17 install
}
build_eigen() { with_cmake -DBUILD_TESTING=OFF -DEIGEN_BUILD_DOC=OFF; }
build_onednn() {
  with_cmake -DDNNL_CPU_RUNTIME=OMP -DDNNL_GPU_RUNTIME=NONE \
    -DDNNL_BUILD_TESTS=OFF -DDNNL_BUILD_EXAMPLES=OFF
}
build_fmt() { with_cmake -DFMT_TEST=OFF -DFMT_DOC=OFF; }
build_nlohmann_json() { with_cmake -DJSON_BuildTests=OFF; }
build_xxhash() { make -j "$jobs" prefix="$prefix" install; }
build_utf8proc() { with_cmake -DBUILD_SHARED_LIBS=ON; }
build_turbojpeg() { # vector code needs nasm; libdir must be absolute
  with_cmake -DENABLE_STATIC=OFF -DCMAKE_INSTALL_LIBDIR="$prefix/lib"
}
build_googletest() { with_cmake; }

fetch() { # fetch FILE DIGEST ADDRESS: downloads FILE if missing; verifies it
  local file=$1 digest=$2 address=$3
  if [[ ! -e $file ]]; then
    curl --fail --location --silent --show-error -o "$file.part" "$address"
    mv "$file.part" "$file"
  fi
  if ! echo "$digest  $file" | sha256sum --check --status; then
    echo "$file: SHA-256 is not $digest: remove it and try again" >&2
    return 74
  fi
}

wanted() { [[ -z $only || $only == *",$1,"* ]]; }

if [[ -n $only ]]; then
  for name in ${only//,/ }; do
    declare -F "build_$name" >/dev/null ||
      { echo "--only: no library $name" >&2; exit 64; }
  done
fi
while read -r name directory digest address <&3; do
  wanted "$name" || continue
  file=$sources/${address##*/}
  if [[ $dry_run == yes ]]; then
    echo "$name: $address -> $file, sha256 $digest, in $directory"
    declare -f "build_$name" | sed -n '3,$s/^ */    /p' | sed '$d'
    continue
  fi
  done_mark=$prefix/.built-$name-$digest
  if [[ -e $done_mark ]]; then
    echo "$name: built already"
    continue
  fi
  mkdir -p "$prefix" "$sources"
  fetch "$file" "$digest" "$address"
  work=$(mktemp -d)
  tar -xf "$file" -C "$work"
  echo "$name: building (log: $prefix/$name.log)"
  # In a subshell of its own, so that set -e takes effect inside the build.
  rc=0
  (cd "$work/$directory" && set -e && "build_$name") \
    >"$prefix/$name.log" 2>&1 3<&- & wait $! || rc=$?
  rm -rf "$work"
  if ((rc != 0)); then
    tail -n 5 "$prefix/$name.log" >&2
    echo "$name: does not build" >&2
    exit 70
  fi
  touch "$done_mark"
done 3< <(pinned_sources)
