#!/usr/bin/env bash
# sbatch, with what the site file says: account, partition, modules.
#   jobs/submit.sh [SBATCH-OPTION ...] jobs/train.sbatch INPUT.ini [...]
# Works from any folder. Site file: $SITE, else jobs/sites/site.sh; make it from
# jobs/sites/example.sh.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=env/site.sh
source "$root/jobs/env/site.sh"
case ${1:-} in '' | -h | --help)
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
  exit $(($# ? 0 : 64))
  ;;
esac
load_site "$root"
export SYNCOPATE_ROOT=$root
exec sbatch "$@"
