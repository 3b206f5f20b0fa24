#!/usr/bin/env bash
# Downloads a published data set, checks its digests and stores it in DIR, for
# data.path. DIR appears only when the data set is complete.
#   jobs/fetch_data.sh NAME DIR      NAME: fashion-mnist | cifar10 | cifar100
# Environment:
#   SYNCOPATE_MIRROR       a URL that serves the same files
#   SYNCOPATE_DIGEST_FILE  "MD5  FILE" lines, as md5sum writes them, for a
#                          mirror that repacked the files
# Exit codes: 0 DIR holds the data, 64 usage, 65 a digest differs, 66 download
# failed, 73 DIR cannot be written.
set -euo pipefail

die() { # die CODE LINE
  echo "error: $2" >&2
  exit "$1"
}

case ${1:-} in -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
(($# == 2)) || die 64 "usage: jobs/fetch_data.sh fashion-mnist|cifar10|cifar100 DIR"
name=$1 dir=$(realpath -m -- "$2") # the folder itself, not a link to it

# Published digests (MD5), the files that the archive must contain, its address.
case $name in
fashion-mnist)
      # This address has no TLS; the digests protect the download.
  url=http://fashion-mnist.s3-website.eu-central-1.amazonaws.com
  digests="8d4fb7e6c68d591d4c3dfef9ec88bf0d  train-images-idx3-ubyte.gz
25c81989df183df01b3e8a0aad5dffbe  train-labels-idx1-ubyte.gz
bef4ecab320f06d8554ea6380940ec79  t10k-images-idx3-ubyte.gz
bb300cfdad3c16e7a12a480ee83cd310  t10k-labels-idx1-ubyte.gz"
  wanted=(train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz
    t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz)
  ;;
cifar10)
  url=https://www.cs.toronto.edu/~kriz
  digests="c32a1d4ab5d03f1284b67883e8d87530  cifar-10-binary.tar.gz"
  wanted=(data_batch_{1..5}.bin test_batch.bin batches.meta.txt)
  ;;
cifar100)
  url=https://www.cs.toronto.edu/~kriz
  digests="03b5dce01913d631647c71ecec9e9cb8  cifar-100-binary.tar.gz"
  wanted=(train.bin test.bin fine_label_names.txt)
  ;;
*) die 64 "$name: unknown data set, expected fashion-mnist, cifar10 or cifar100" ;;
esac
mapfile -t files < <(awk '{ print $2 }' <<<"$digests")
url=${SYNCOPATE_MIRROR:-$url}

# DIR appears by one rename, so a DIR with all files is complete.
missing=0
for file in "${wanted[@]}"; do [[ -f $dir/$file ]] || missing=$((missing + 1)); done
if ((missing == 0)); then
  echo "$dir: $name is there already"
  exit 0
fi
if [[ -e $dir ]] && [[ ! -d $dir || -n $(ls -A "$dir") ]]; then
  die 73 "$dir: exists and is not $name; give a new or an empty folder"
fi
[[ $dir != "$(pwd -P)" ]] ||
  die 73 "$dir: is the current folder, which cannot be replaced; give another one"

if command -v curl >/dev/null; then
  download() { curl --fail --location --silent --show-error --connect-timeout 30 \
    --speed-limit 1000 --speed-time 60 --retry 2 -o "$2" "$1"; }
elif command -v wget >/dev/null; then
  download() { wget --no-verbose --timeout=30 --tries=3 -O "$2" "$1"; }
else
  die 66 "neither curl nor wget is installed"
fi

mkdir -p "$(dirname "$dir")" 2>/dev/null ||
  die 73 "$(dirname "$dir"): cannot create folder"
temporary=$(mktemp -d "$dir.XXXXXX" 2>/dev/null) ||
  die 73 "$dir: cannot create a folder next to it"
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT TERM

mkdir "$temporary/archives" "$temporary/data"
for file in "${files[@]}"; do
  message=$(download "$url/$file" "$temporary/archives/$file" 2>&1) ||
    die 66 "$url/$file: ${message##*$'\n'}"
  expected=$(awk -v file="$file" '$2 == file || $2 == "*" file { print $1 }' \
    "${SYNCOPATE_DIGEST_FILE:-/dev/stdin}" <<<"$digests")
  [[ -n $expected ]] || die 65 "$file: ${SYNCOPATE_DIGEST_FILE-} has no digest for it"
  found=$(md5sum "$temporary/archives/$file" | cut -d' ' -f1)
  [[ $found == "$expected" ]] ||
    die 65 "$url/$file: MD5 $found, expected $expected; nothing was kept"
  case $file in
  *.tar.gz)
    # The archive contains one folder, whose files go directly into DIR.
    message=$(tar -xzf "$temporary/archives/$file" -C "$temporary/data" \
      --no-same-owner --strip-components=1 2>&1) || {
      [[ $message != *"No space left"* ]] || die 74 "$dir: no space left on device"
      die 65 "$url/$file: cannot be unpacked"
    }
    ;;
  *) mv "$temporary/archives/$file" "$temporary/data/" ;;
  esac
done
for file in "${wanted[@]}"; do
  [[ -f $temporary/data/$file ]] || die 65 "$url: the archive lacks $file"
done

chmod 755 "$temporary/data"
sync "$temporary/data"/* "$temporary/data" 2>/dev/null || true
# -T replaces an empty DIR or creates it, but never moves into it.
mv -T "$temporary/data" "$dir" 2>/dev/null || die 73 "$dir: cannot be written"
echo "$dir: $name, $(du -sh "$dir" | cut -f1)"
