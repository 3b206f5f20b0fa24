#!/usr/bin/env bash
# Does jobs/env/syncopate.def build, and does the container train? By Apptainer if it
# is installed, as whoever calls this. Otherwise in its manner: debootstrap makes the
# base image, the recipe's sections run in a chroot, and the program inside then trains
# as an ordinary user in a read-only root; that needs root, debootstrap and a Debian
# mirror. It trains alone, on two MPI ranks and through the %runscript. For
# syncopate-cuda.def it checks that each section parses and that each file is there.
#   [BASE=IMAGE] [SUITE=trixie] tests/bench/container.sh [DIRECTORY]
# DIRECTORY keeps the container; one that was built there before is not built again.
# BASE is an image or folder that Apptainer takes instead of the recipe's base image,
# where no registry can be reached: debootstrap --variant=minbase bookworm FOLDER.
# SUITE, without Apptainer, is another release of Debian than that of the recipe.
# Needs 2 GB of disk; compiles the whole program, which took 36 minutes on two cores
# that were busy with other things.
set -euo pipefail
case ${1:-} in -*) sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"; exit 64 ;; esac
cd "$(dirname "$0")/../.."
# shellcheck source=tests/bench/recipe.sh
source tests/bench/recipe.sh
has_apptainer() { command -v apptainer >/dev/null; }
if ! has_apptainer; then
  ((EUID == 0)) || { echo "container.sh needs root, for chroot" >&2; exit 66; }
  command -v debootstrap >/dev/null || { echo "please install debootstrap" >&2; exit 66; }
fi

if (($#)); then
  mkdir -p "$1"
  scratch=$(realpath "$1")
else
  scratch=$(mktemp -d)
  trap 'rm -rf --one-file-system "$scratch"' EXIT
fi
root=$scratch/root image=$scratch/syncopate.sif

check() { # check RECIPE: what can be said without its base image
  local name
  sed -n 's/^%\([a-z]*\).*/\1/p' "$1" | while read -r name; do
    [[ $name == files ]] || section "$1" "$name" | sh -n
  done
  files "$1" >/dev/null
  echo "$1: its sections parse, its files are there"
}

# in_root MODE COMMAND...: in a mount namespace, which takes the mounts with it.
# MODE run: as Apptainer runs a container: read-only but for /tmp, as a user.
in_root() {
  # shellcheck disable=SC2016  # for the shell within
  unshare --mount bash -c '
    set -e
    root=$1 mode=$2
    shift 2
    user=0:0
    mount --bind "$root" "$root"
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    if [[ $mode == run ]]; then
      mount -o remount,bind,ro "$root"
      mount -t tmpfs none "$root/tmp"
      user=65534:65534
    fi
    exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
      HOME=/tmp LC_ALL=C chroot --userspec="$user" "$root" "$@"' - "$root" "$@"
}

build_image() { # build_image RECIPE
  local recipe=$1
  if [[ -n ${BASE:-} ]]; then
    recipe=$scratch/recipe.def
    sed "s|^Bootstrap:.*|Bootstrap: localimage|; s|^From:.*|From: $(realpath "$BASE")|" \
      "$1" >"$recipe"
  fi
  apptainer build "$image" "$recipe" >"$scratch/build.log" 2>&1 ||
    { tail -n 5 "$scratch/build.log" >&2; echo "not built: $scratch/build.log" >&2; exit 70; }
}

# build_root RECIPE: its base, %files, %post and %test.
build_root() {
  local recipe=$1
  [[ $(header "$recipe" From) == debian:12-slim ]] ||
    { echo "$recipe: not made from debian:12-slim" >&2; exit 65; }
  debootstrap --variant=minbase "${SUITE:-bookworm}" "$root" \
    >"$scratch/debootstrap.log"
  cp /etc/resolv.conf "$root/etc/"
  copy_files "$recipe" "$root"
  section "$recipe" post >"$root/post"
  in_root build /bin/sh -ex /post >"$scratch/post.log" 2>&1 ||
    { tail -n 5 "$scratch/post.log" >&2; echo "%post failed: $scratch/post.log" >&2; exit 70; }
  rm "$root/post"
  { section "$recipe" environment; section "$recipe" runscript; } >"$root/runscript"
  section "$recipe" test >"$root/test"
  in_root run /bin/sh -ex /test
  touch "$scratch/built"
}

try() { # try NAME SCRIPT
  local inside=(in_root run /bin/sh -ec "$2")
  has_apptainer && inside=(apptainer exec --contain "$image" /bin/sh -ec "$2")
  echo "$1:"
  "${inside[@]}" >"$scratch/log" 2>&1 || { tail -n 5 "$scratch/log" >&2; exit 70; }
  tail -n 2 "$scratch/log" | sed 's/^/  /'
}

check jobs/env/syncopate-cuda.def
check jobs/env/syncopate.def
runscript=/runscript
if has_apptainer; then
  runscript=/.singularity.d/runscript
  [[ -e $image ]] || build_image jobs/env/syncopate.def
  apptainer test "$image" >"$scratch/log" 2>&1
  echo "built by $(apptainer --version); the image has $(du -sm "$image" | cut -f 1) MB"
else
  [[ -e $scratch/built ]] || build_root jobs/env/syncopate.def
  echo "the root has $(du -sm "$root" | cut -f 1) MB"
fi
smoke=/opt/syncopate/inputs/smoke.ini
try "by the %runscript" "cd /tmp; sh $runscript train $smoke"
try "two ranks" "cd /tmp; mpiexec -n 2 syncopate train $smoke"
try "two workers, a table and a picture" "
  cd /tmp; syncopate train $smoke --run.workers=2 --run.name=two
  /opt/syncopate/postprocess/summarize.py runs/*; /opt/syncopate/postprocess/plot.py runs/* -o runs.png"
