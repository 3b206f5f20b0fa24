#!/usr/bin/env bash
# Files and folders that the user names: outputs behind links, on devices and in
# folders; where runs go; narrow terminals; weights from PyTorch's wrappers.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
{ printf '[run]\nsteps = 4\nthreads = 1\n' && small_network; } >small.ini
expect_code 0 "$SYNCOPATE" train small.ini --run.name=done

says() { grep -qE -- "$1" "${2:-err}" || fail "no '$1' in $(cat "${2:-err}")"; }

echo "an output is written behind a symbolic link, and to nothing but a file"
mkdir store
ln -s store/model.safetensors model.safetensors
ln -s "$PWD/store/p.csv" p.csv
expect_code 0 "$SYNCOPATE" export runs/done -o model.safetensors
expect_code 0 "$SYNCOPATE" predict small.ini --checkpoint=runs/done -o p.csv
expect_code 0 "$SYNCOPATE" predict small.ini --checkpoint=runs/done -o p.csv
[[ -L model.safetensors && -f store/model.safetensors ]] || fail "a link is replaced"
[[ -L p.csv && -f store/p.csv ]] || fail "an absolute link is replaced"
mkfifo f.csv f.safetensors f.h5
expect_code 73 "$SYNCOPATE" predict small.ini --checkpoint=runs/done -o f.csv
says '^error: f.csv: exists but is not a regular file$'
expect_code 73 "$SYNCOPATE" export runs/done -o f.safetensors
expect_code 73 "$SYNCOPATE" prepare images small.ini -o f.h5
expect_code 73 "$SYNCOPATE" simulate small.ini --output=f.h5
[[ -p f.csv && -p f.safetensors && -p f.h5 ]] || fail "a pipe is replaced"
ln -s runs/done/results.h5 linked.h5
expect_code 73 "$SYNCOPATE" simulate small.ini --output=linked.h5
says '^error: --output=linked.h5: would overwrite a file of a run'
expect_code 73 "$SYNCOPATE" prepare images small.ini -o store
says '^error: store: is a folder$'

echo "no output replaces what a command reads or a run keeps"
expect_code 0 "$SYNCOPATE" prepare images small.ini -o data.h5
cat >given.ini <<'INI'
[run]
steps = 4
threads = 1
[data]
kind = hdf5
path = data.h5
[model]
family = resnet
depth = 8
INI
checkpoint=$(echo runs/done/checkpoints/step-*)
find runs data.h5 given.ini -type f ! -name '*.lock' -exec md5sum {} + | sort >before
keeps() { # keeps FILE COMMAND...: it ends with 73 and says which file
  expect_code 73 "$SYNCOPATE" "${@:2}" "$1"
  says "^error: --output=$1: would overwrite "
}
keeps given.ini prepare images given.ini -o
keeps data.h5 prepare images given.ini -o
keeps data.h5 predict given.ini --checkpoint=runs/done -o
keeps runs/done/results.h5 predict small.ini --checkpoint=runs/done -o
keeps runs/done/results.h5 simulate small.ini --output
keeps "$checkpoint/replica.h5" predict small.ini --checkpoint=runs/done -o
touch runs/done/metrics.csv
keeps runs/done/metrics.csv predict small.ini --checkpoint=runs/done -o
rm runs/done/metrics.csv
find runs data.h5 given.ini -type f ! -name '*.lock' -exec md5sum {} + | sort >after
diff before after >&2 || fail "a refused output changed files"
# Others in a run's folder are free, also a second time.
for _ in 1 2; do
  expect_code 0 "$SYNCOPATE" predict small.ini --checkpoint=runs/done \
    -o runs/done/scores.csv
done

echo "a file that is called like a temporary one stays"
echo mine >keep.csv.tmp
expect_code 66 "$SYNCOPATE" predict small.ini --checkpoint=runs/nothing -o keep.csv
expect_code 0 "$SYNCOPATE" predict small.ini --checkpoint=runs/done -o keep.csv
[[ $(cat keep.csv.tmp) == mine ]] || fail "keep.csv.tmp is gone"
[[ -z $(find . -name '.*.tmp') ]] || fail "left: $(find . -name '.*.tmp')"

echo "-o=FILE is --output=FILE"
expect_code 0 "$SYNCOPATE" predict small.ini --checkpoint=runs/done -o=equals.csv
[[ -f equals.csv && ! -e =equals.csv ]] || fail "-o=: $(ls)"

echo "doctor looks where runs go"
expect_code 0 env SYNCOPATE_RUNS="$PWD/elsewhere" "$SYNCOPATE" doctor
says "^\[ok\] +storage .* in $PWD/elsewhere in " out
[[ ! -e elsewhere ]] || fail "doctor leaves a folder"
expect_code 73 env SYNCOPATE_RUNS=/proc/nowhere "$SYNCOPATE" doctor
says '^\[bad\] +storage .*/proc/nowhere' out

echo "a folder of runs that nothing expands"
# shellcheck disable=SC2088,SC2016
for folder in '~/runs' '$HOME/runs'; do
  expect_code 65 "$SYNCOPATE" train small.ini "--run.directory=$folder"
  says 'run.directory: expected a path without ~ .* which nothing expands'
done
for folder in ' ' 'trail '; do
  expect_code 64 env SYNCOPATE_RUNS="$folder" "$SYNCOPATE" train small.ini
  says 'SYNCOPATE_RUNS: .* no blank at an end'
done

echo "a narrow terminal"
python - "$SYNCOPATE" <<'PY' || fail "the bar does not fit its terminal"
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], [sys.argv[1], "train", "small.ini", "--run.name=narrow",
                           "--run.steps=3000", "--run.log_every=3000"])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
seen = b""
try:
    while True:
        seen += os.read(fd, 4096)
except OSError:
    pass
os.waitpid(pid, 0)
bars = [part for part in seen.replace(b"\n", b"\r").split(b"\r") if part.startswith(b"[")]
assert bars and max(map(len, bars[1:])) <= 39, bars
blanks = [part for part in seen.split(b"\r") if part and not part.strip()]
assert max(map(len, blanks[1:]), default=0) <= 39, blanks
PY

echo "weights of PyTorch's wrappers, and such as are no start"
python - <<'PY'
import json, struct

def read(path):
    whole = open(path, "rb").read()
    length = struct.unpack("<Q", whole[:8])[0]
    return json.loads(whole[8:8 + length]), whole[8 + length:]

def write(path, header, data):
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)

header, data = read("store/model.safetensors")
plain = {name: entry for name, entry in header.items() if name != "__metadata__"}
for file, prefix in (("ddp", "module."), ("compiled", "_orig_mod.module.")):
    write(f"{file}.safetensors", {prefix + name: entry for name, entry in plain.items()}, data)

def changed(file, end, value):
    name = next(name for name in plain if name.endswith(end))
    at = plain[name]["data_offsets"][0]
    write(f"{file}.safetensors", plain, data[:at] + struct.pack("<f", value) + data[at + 4:])

changed("nan", "conv1.weight", float("nan"))
changed("variance", "running_var", -1.0)
PY
for file in store/model ddp compiled; do
  expect_code 0 "$SYNCOPATE" train small.ini --run.name="from-${file//\//-}" \
    --model.weights=$file.safetensors
done
for file in ddp compiled; do
  python "$here/compare_states.py" runs/from-store-model "runs/from-$file" ||
    fail "$file: other values"
done
expect_code 65 "$SYNCOPATE" train small.ini --run.name=nan --model.weights=nan.safetensors
says '^error: model.weights: nan.safetensors: .*conv1.weight holds nan, expected finite'
expect_code 65 "$SYNCOPATE" train small.ini --run.name=var --model.weights=variance.safetensors
says 'running_var holds -1, expected variances'
[[ ! -e runs/nan && ! -e runs/var ]] || fail "a refused start leaves a folder"
finish
