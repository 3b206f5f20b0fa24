#!/usr/bin/env bash
# Fewer threads than a run needs: done, or one line that names the limits.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
skip() { echo "skipped: $1"; exit 77; }
((EUID == 0)) || skip "must be root, to become a user whom the limit is for"
command -v setpriv >/dev/null || skip "setpriv is not installed"
user=65534 # nobody
! pgrep -u "$user" >/dev/null || skip "user $user has processes of its own"
chmod 0755 . && chown "$user" .
cp "$SYNCOPATE" ./program
setpriv --reuid="$user" --clear-groups ./program --version >/dev/null 2>&1 ||
  skip "user $user cannot run the program"

as_user() { # as_user PROCESSES COMMAND...
  setpriv --reuid="$user" --clear-groups \
    bash -c "ulimit -u $1 && exec \"\${@:2}\"" bash "$@"
}
codes=''
for count in {1..12}; do
  code=0
  as_user "$count" ./program train tiny.ini --run.steps=2 --schedule.warmup=0 \
    --eval.every=0 --run.threads=4 --run.workers=2 --run.name="few-$count" \
    >out 2>err || code=$?
  [[ $code == 0 || $code == 70 ]] || fail "$count: code $code: $(cat err)"
  [[ $code == 0 || ($(wc -l <err) == 1 && $(<err) == *"ulimit -u"*) ]] ||
    fail "$count: not one line that says why: $(cat err)"
  codes+="$code "
done
echo "limits from 1: $codes"
[[ $codes == 70*' 0 ' ]] || fail "no limit was refused, or none let a run end"
finish
