#!/usr/bin/env bash
# The scripts of jobs/ where something is unusual around them: CDPATH, the site
# file, the folder they start in, an old Python, folders that cannot be written.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
need_python
shows() { grep -Eq -- "$1" "$2" || fail "no $1 in $2: $(cat "$2")"; }
in_folder() { (cd "$1" >/dev/null && "${@:2}"); } # in_folder FOLDER COMMAND...

{
  printf '[run]\nsteps = 8\nworkers = 2\nthreads = 1\n[eval]\nevery = 4 steps\nbatch = 20\n'
  small_network | sed 's/^batch = .*/&\nvalidation = 40\nnoise = 2/'
} >base.ini
cat >tiny.sweep <<'END'
[sweep]
input = base.ini
directory = swept
[final]
seeds = 1
[variants]
bsp = sync.scheme=bsp
END

# With CDPATH, cd prints the folder that it goes to.
for words in "submit.sh --help" "sweep.sh --help" "sync_switch_search.sh --help"; do
  # shellcheck disable=SC2086
  CDPATH=. expect_code 0 in_folder "$source_dir" jobs/$words
done
CDPATH=. expect_code 66 in_folder "$source_dir" jobs/study.sh nowhere
shows '^error: nowhere: no such study; there are .*esync' err

# A site file whose last command is false.
# shellcheck disable=SC2016  # the site file expands it
echo '[[ -d /nowhere ]] && export DATA=/nowhere' >site.sh
SITE=$PWD/site.sh expect_code 0 "$source_dir/jobs/sweep.sh" --local tiny.sweep --dry-run
shows '^final bsp-seed1: to do$' out
shows "^note: $PWD/site.sh: exit code 1 of its last command$" err
mkdir fake
printf '#!/bin/sh\necho submitted\n' >fake/sbatch
chmod +x fake/sbatch
PATH=$PWD/fake:$PATH SITE=$PWD/site.sh expect_code 0 "$source_dir/jobs/submit.sh" x.sbatch
shows '^submitted$' out

# A Python that is too old is not used, and the scripts say so.
cat >old_python <<END
#!/usr/bin/env bash
exec "$PYTHON" -c 'import sys; sys.version_info = (3, 8, 18)
exec(sys.argv[1])' "\$2"
END
chmod +x old_python
found=$(PYTHON=$PWD/old_python find_python "$source_dir")
[[ -n $found && $found != "$PWD/old_python" ]] || fail "takes an old Python"
expect_code 66 "$PYTHON" -c 'import sys
sys.path.insert(0, sys.argv[1])
sys.version_info = (3, 8, 18)
import packages' "$source_dir/postprocess"
shows '^error: .*: 3.9 or newer expected$' err
[[ $(wc -l <err) == 1 ]] || fail "not one line: $(cat err)"
# Nothing in them needs a newer one: syntax, and A | B in annotations.
expect_code 0 "$PYTHON" - "$source_dir"/{jobs,postprocess}/*.py <<'PY'
import ast, sys
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path, feature_version=(3, 9))
    later = any(isinstance(node, ast.ImportFrom) and node.module == "__future__"
                for node in tree.body)
    for node in ast.walk(tree):
        noted = [getattr(node, name, None) for name in ("annotation", "returns")]
        assert later or not any(
            isinstance(part, ast.BinOp) for note in noted if note
            for part in ast.walk(note)), (path, node.lineno)
PY

# The search for the switch point, of an installed tree and from another folder. It
# measures on the samples that the input holds out.
mkdir -p tree/bin tree/share/syncopate
cp -r "$source_dir"/{jobs,postprocess} tree/share/syncopate
ln -s "$(realpath "$SYNCOPATE")" tree/bin/syncopate
search() {
  env -u SYNCOPATE tree/share/syncopate/jobs/sync_switch_search.sh -r 1 -m 1 \
    "$@" --optimizer.lr=0.01
}
expect_code 0 search -d held base.ini
shows '^use (0.5|1)$' out
grep -q '^on = validation' held/bsp-1-seed1/input.ini ||
  fail "chosen on the test set: $(grep '^on =' held/bsp-1-seed1/input.ini)"
[[ ! -s err ]] || fail "said: $(cat err)"
expect_code 0 search -d tested base.ini --data.validation=0
shows '^note: base.ini holds out no samples \(data.validation\): the search uses the test set$' err
grep -q '^on = test' tested/bsp-1-seed1/input.ini || fail "not on the test set"
# A search that was begun on the test set is another one.
sed -i '/eval.on=validation/d' held/search.input
expect_code 65 search -d held base.ini

# A study's folder that cannot be written is refused before any run.
mkdir -p closed runs_of_study
cp base.ini closed
cat tiny.sweep - >closed/study.sweep <<'END'
[sizes]
short =
[rules]
there = accuracy(bsp) | >= 0 | -
END
sed -i "s#^directory = .*#directory = $PWD/runs_of_study/x#" closed/study.sweep
as_user=()
if ((EUID == 0)); then # to whom no folder is closed
  as_user=(setpriv --reuid=65534 --clear-groups env HOME=/nowhere)
  chmod 755 "$scratch"
  chmod 777 runs_of_study
else
  chmod a-w closed
fi
if "${as_user[@]}" test -r "$source_dir/jobs/study.sh" -a -x "$SYNCOPATE"; then
  expect_code 73 "${as_user[@]}" "$source_dir/jobs/study.sh" closed --run.threads=1
  shows '^error: .*/closed: not writable: a study is recorded beside its study.sweep$' err
  [[ ! -e runs_of_study/x ]] || fail "a run was started"
else
  echo "not checked: another user cannot read $source_dir"
fi
chmod u+w closed

# fetch_data.sh: the current folder is refused before a download; a link to an empty
# folder stands for that.
mkdir -p here empty "www/cifar-100-binary"
ln -s empty linked
SYNCOPATE_MIRROR=file:///nowhere expect_code 73 in_folder here \
  "$source_dir/jobs/fetch_data.sh" cifar100 .
shows '^error: .*/here: is the current folder, which cannot be replaced' err
if command -v curl >/dev/null; then
  touch www/cifar-100-binary/{train.bin,test.bin,fine_label_names.txt}
  (cd www && tar -czf cifar-100-binary.tar.gz cifar-100-binary &&
    md5sum cifar-100-binary.tar.gz >digests)
  SYNCOPATE_MIRROR=file://$PWD/www SYNCOPATE_DIGEST_FILE=$PWD/www/digests \
    expect_code 0 "$source_dir/jobs/fetch_data.sh" cifar100 linked
  [[ -f empty/train.bin && -L linked ]] || fail "not behind the link: $(ls -R empty)"
fi

# build_dependencies.sh: a new prefix, archives elsewhere. A stand-in for the
# archive and for its digest.
mkdir -p made/zlib-1.2.13.dfsg archives
printf '#!/bin/sh\n' >made/zlib-1.2.13.dfsg/configure
printf 'install:\n\ttouch built\n' >made/zlib-1.2.13.dfsg/Makefile
chmod +x made/zlib-1.2.13.dfsg/configure
tar -cjf archives/zlib_1.2.13.dfsg.orig.tar.bz2 -C made zlib-1.2.13.dfsg
printf '#!/bin/sh\ncat >/dev/null\n' >fake/sha256sum
chmod +x fake/sha256sum
PATH=$PWD/fake:$PATH expect_code 0 "$source_dir/jobs/env/build_dependencies.sh" new/prefix \
  --only zlib --sources archives
[[ -e new/prefix/zlib.log ]] || fail "no log: $(cat out err)"
finish
