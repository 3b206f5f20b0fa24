#!/usr/bin/env bash
# Runs sbatch with the settings of the site file: account, partition, modules.
#   jobs/submit.sh [SBATCH-OPTION ...] jobs/train.sbatch INPUT.ini [...]
# Works from any folder. The site file is $SITE, or else jobs/sites/site.sh, a
# copy of jobs/sites/example.sh.
set -euo pipefail
unset CDPATH # with which cd may print, or go elsewhere
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
