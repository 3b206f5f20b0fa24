#!/usr/bin/env bash
# jobs/fetch_data.sh against a file server on this machine: digests, unpacking,
# refusals that leave nothing behind.
set -euo pipefail
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
fetch=$source_dir/jobs/fetch_data.sh
command -v python3 >/dev/null || { echo "skip: no python3 to serve files with"; exit 77; }
command -v curl >/dev/null || command -v wget >/dev/null ||
  { echo "skip: neither curl nor wget is installed"; exit 77; }

work=$(mktemp -d)
server=
cleanup() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  echo "FAILED: $1"
  exit 1
}

# expect CODE TEXT DIR NAME: fetch DIR's NAME, compare exit code and output,
# one line only.
expect() {
  local rc=0 output
  output=$("$fetch" "$4" "$3" 2>&1) || rc=$?
  [[ $rc == "$1" ]] || fail "$4 to $3: exit $rc, expected $1: $output"
  [[ $output == *"$2"* ]] || fail "$4: '$output' lacks '$2'"
  [[ $(wc -l <<<"$output") == 1 ]] || fail "$4: more than one line: $output"
}

only() { # only DIR NAME...: DIR holds these names and nothing else
  local dir=$1 found
  shift
  found=$(cd "$dir" && find . -mindepth 1 -printf '%P\n' | sort | xargs)
  [[ $found == "$(printf '%s\n' "$@" | sort | xargs)" ]] ||
    fail "$dir holds '$found', expected '$*'"
}

# 1. Files as the publishers lay them out, small.
mkdir "$work/www" "$work/out"
python3 - "$work/www" <<'PYTHON'
import gzip, io, struct, sys, tarfile
www = sys.argv[1]

def archive(name, folder, files):
    with tarfile.open(f"{www}/{name}", "w:gz") as tar:
        for file, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{file}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

def records(n, label_bytes):
    return b"".join(bytes([i % 10] * label_bytes) + bytes([i]) * 3072
                    for i in range(n))

names10 = "\n".join(f"class{i}" for i in range(10)).encode()
archive("cifar-10-binary.tar.gz", "cifar-10-batches-bin",
        {**{f"data_batch_{i}.bin": records(20, 1) for i in range(1, 6)},
         "test_batch.bin": records(10, 1), "batches.meta.txt": names10,
         "readme.html": b"<p>"})
archive("cifar-100-binary.tar.gz", "cifar-100-binary",
        {"train.bin": records(20, 2), "test.bin": records(10, 2),
         "fine_label_names.txt": b"\n".join(b"c%d" % i for i in range(100))})
for split, n in (("train", 40), ("t10k", 10)):
    images = struct.pack(">4i", 0x803, n, 6, 6) + bytes(n * 36)
    labels = struct.pack(">2i", 0x801, n) + bytes(i % 10 for i in range(n))
    for kind, content in (("images-idx3", images), ("labels-idx1", labels)):
        with gzip.open(f"{www}/{split}-{kind}-ubyte.gz", "wb") as file:
            file.write(content)
PYTHON
(cd "$work/www" && md5sum ./*.gz | sed 's|\./||') >"$work/digests"

# The system chooses a free port; the server says which.
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$work/www" \
  >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 600); do
  port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/server.log" | head -n 1)
  [[ -z $port ]] || break
  sleep 0.1
done
[[ -n $port ]] || fail "the file server did not start: $(cat "$work/server.log")"
export SYNCOPATE_MIRROR=http://127.0.0.1:$port no_proxy=127.0.0.1

# 2. Published digests refuse these files, and nothing is left.
for name in fashion-mnist cifar10 cifar100; do
  expect 65 "; nothing was kept" "$work/out/refused" "$name"
done
only "$work/out"

# 3. With their own digests they come, whole; a second call finds them.
export SYNCOPATE_DIGEST_FILE=$work/digests
expect 0 "cifar10" "$work/out/cifar10" cifar10
only "$work/out/cifar10" data_batch_{1..5}.bin test_batch.bin \
  batches.meta.txt readme.html
mkdir -p "$work/out/empty"
expect 0 "cifar100" "$work/out/empty" cifar100
only "$work/out/empty" train.bin test.bin fine_label_names.txt
expect 0 "fashion-mnist" "$work/out/deep/folder/fashion/" fashion-mnist
only "$work/out/deep/folder/fashion" {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz
requests=$(wc -l <"$work/server.log")
for pair in cifar10:cifar10 cifar100:empty fashion-mnist:deep/folder/fashion; do
  expect 0 "is there already" "$work/out/${pair#*:}" "${pair%:*}"
done
[[ $(wc -l <"$work/server.log") == "$requests" ]] || fail "downloaded again"
only "$work/out/deep/folder" fashion fashion/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz

# 4. Refusals: one line, a code, and nothing left.
expect 64 "unknown data set" "$work/out/x" mnist
expect 73 "exists and is not cifar10" "$work/out/empty" cifar10
only "$work/out/empty" train.bin test.bin fine_label_names.txt
expect 73 "" /proc/nowhere/data cifar10
mv "$work/www/t10k-labels-idx1-ubyte.gz" "$work/kept"
expect 66 "t10k-labels-idx1-ubyte.gz: " "$work/out/x" fashion-mnist
head -c 100 "$work/www/cifar-10-binary.tar.gz" >"$work/cut"
cp "$work/cut" "$work/www/cifar-10-binary.tar.gz"
expect 65 "expected $(awk '/cifar-10-/ { print $1 }' "$work/digests")" \
  "$work/out/x" cifar10
(cd "$work/www" && md5sum cifar-10-binary.tar.gz) >"$work/digests.cut"
SYNCOPATE_DIGEST_FILE=$work/digests.cut expect 65 "cannot be unpacked" \
  "$work/out/x" cifar10
SYNCOPATE_DIGEST_FILE=$work/digests.cut expect 65 "has no digest" \
  "$work/out/x" cifar100
SYNCOPATE_MIRROR=http://127.0.0.1:1 expect 66 "127.0.0.1:1/" "$work/out/x" cifar10
[[ -z $(find "$work/out" -maxdepth 1 -name 'x*' -print) ]] || fail "remains in $work/out"

echo "fetch_data: digests, unpacking and refusals are as they should be"
