# Parts of an Apptainer recipe, for container.sh and tests. Source it in the root
# of the repository.
# shellcheck shell=bash

section() { # section RECIPE NAME: its lines
  awk -v name="%$2" '/^%/ {inside = ($1 == name); next} inside' "$1"
}

header() { sed -n "s/^$2: *//p" "$1"; } # header RECIPE KEY

# files RECIPE: each line is one source and, if there is a second word, its
# destination; Apptainer ignores further words.
files() {
  section "$1" files | while read -r source destination ignored; do
    [[ -n $source && $source != \#* ]] || continue
    if [[ -n $ignored || ! -e $source ]]; then
      echo "$1: %files: $source $destination $ignored" >&2
      exit 65
    fi
    echo "$source ${destination:-$PWD/$source}"
  done
}

# copy_files RECIPE ROOT
copy_files() {
  files "$1" | while read -r source destination; do
    [[ $destination == */ ]] && mkdir -p "$2$destination"
    mkdir -p "$(dirname "$2$destination")"
    cp -fLr "$source" "$2$destination"
  done
}
