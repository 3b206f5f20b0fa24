# shellcheck shell=bash
# Settings of the site at which the job scripts run. Sourced, then:
#   load_site ROOT       reads the site file: $SITE, else jobs/sites/site.sh if
#                        there is one; sets mpi, srun_options and syncopate
#                        ($SYNCOPATE, else the site's, else as below)
#   program=$(find_program ROOT)   $SYNCOPATE, a build of ROOT, the installed one
#                        that ROOT belongs to, or the one on PATH

find_program() {
  local candidate candidates=("$1/build/release/syncopate"
    "$1/build/cpu/syncopate" "$1/../../bin/syncopate" syncopate)
  [[ -z ${SYNCOPATE:-} ]] || candidates=("$SYNCOPATE")
  for candidate in "${candidates[@]}"; do
    type -P -- "$candidate" && return
  done
  echo "error: ${SYNCOPATE:-$1/build/release/syncopate}: no program is there" >&2
  return 66
}

# Variables that the caller uses.
# shellcheck disable=SC2034
load_site() {
  local file=${SITE:-$1/jobs/sites/site.sh}
  mpi=pmi2 srun_options=() syncopate=''
  if [[ -n ${SITE:-} && ! -r $SITE ]]; then
    echo "error: SITE=$SITE: no such file" >&2
    return 66
  fi
  if [[ -r $file ]]; then
    set +u # the module command of many sites reads unset variables
    # shellcheck source=../sites/example.sh
    source "$file" || echo "note: $file: exit code $? of its last command" >&2
    set -u
  fi
  syncopate=$(SYNCOPATE=${SYNCOPATE:-$syncopate} find_program "$1")
}
