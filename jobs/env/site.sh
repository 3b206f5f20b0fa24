# shellcheck shell=bash
# Settings of the site at which the job scripts run. Sourced, then:
#   load_site ROOT       reads the site file: $SITE, else jobs/sites/site.sh if
#                        there is one; sets mpi, srun_options and syncopate
#   program=$(find_program ROOT)   $SYNCOPATE, a build of ROOT, or an installed one

find_program() {
  local candidate
  for candidate in ${SYNCOPATE:+"$SYNCOPATE"} "$1/build/release/syncopate" \
    "$1/build/cpu/syncopate" "$1/../../bin/syncopate"; do
    if [[ -x $candidate ]]; then
      echo "$candidate"
      return 0
    fi
    [[ -z ${SYNCOPATE:-} ]] || break # $SYNCOPATE is the only candidate
  done
  echo "error: ${SYNCOPATE:-$1/build/release/syncopate}: not built" >&2
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
  [[ -n $syncopate ]] || syncopate=$(find_program "$1") || return
  if [[ ! -x $syncopate ]]; then
    echo "error: $syncopate: not built" >&2
    return 66
  fi
}
