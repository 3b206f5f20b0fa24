# shellcheck shell=bash
# The Debian and Ubuntu packages that syncopate needs. Sourced by
# jobs/quickstart.sh and tests/run.sh:  install_packages build plot test ...

packages_of() { # packages_of GROUP
  case $1 in
    build)
      echo g++ cmake ninja-build mpich libmpich-dev libhdf5-dev \
        libboost-context-dev libboost-program-options-dev libdnnl-dev \
        libeigen3-dev libfmt-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev \
        libutf8proc-dev libjpeg-dev
      ;;
    data) echo dataset-fashion-mnist ;;
    plot) echo python3 python3-numpy python3-h5py python3-matplotlib ;;
    test)
      echo libgtest-dev libjpeg-turbo-progs libturbojpeg0-dev clang-format-14 \
        shellcheck strace slurmctld slurmd slurm-client slurm-wlm-basic-plugins \
        munge procps iproute2 groff-base python3-pandas
      ;;
    *)
      echo "packages.sh: no group $1" >&2
      return 64
      ;;
  esac
}

missing_packages() { # missing_packages NAME...: those not installed
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == \
      installed ]] || echo "$name"
  done
}

# Releases other than Debian 12 may lack clang-format-14; the format is then not
# checked.
without_unavailable() { # without_unavailable NAME...
  local name
  for name in "$@"; do
    if [[ $name != clang-format-14 ]] ||
      apt-cache policy "$name" 2>/dev/null | grep -q 'Candidate: [^(]'; then
      echo "$name"
    fi
  done
}

# Installs the missing packages of the groups. Without root, sudo or apt, prints
# one line that names them and exits with 66. SYNCOPATE_PACKAGES=skip installs
# nothing (for modules, CMAKE_PREFIX_PATH); CMake then names what is missing.
install_packages() {
  local names=() missing as_root=() group
  [[ ${SYNCOPATE_PACKAGES:-} == skip ]] && return 0
  for group in "$@"; do
    read -r -a names <<<"${names[*]} $(packages_of "$group")"
  done
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "no apt here: load modules or build the libraries with" \
      "jobs/env/build_dependencies.sh, then set SYNCOPATE_PACKAGES=skip" >&2
    return 66
  fi
  mapfile -t missing < <(missing_packages "${names[@]}")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      echo "please install: sudo apt-get install ${missing[*]}   (or build" \
        "them with jobs/env/build_dependencies.sh and set" \
        "SYNCOPATE_PACKAGES=skip)" >&2
      return 66
    fi
  fi
  echo "installing: ${missing[*]}"
  local command=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
  local options=(-y -q --no-install-recommends -o DPkg::Lock::Timeout=120)
  local log
  log=$(mktemp)
  # Fetch package lists only if the installation fails with the present ones.
  if "${command[@]}" "${options[@]}" install "${missing[@]}" >"$log" 2>&1 ||
    { "${command[@]}" -q update >"$log" 2>&1 &&
      mapfile -t missing < <(without_unavailable "${missing[@]}") &&
      "${command[@]}" "${options[@]}" install "${missing[@]}" >"$log" 2>&1; }; then
    rm -f "$log"
    return 0
  fi
  tail -n 5 "$log" >&2
  echo "apt-get could not install: ${missing[*]} (all of its output: $log)" >&2
  return 66
}
