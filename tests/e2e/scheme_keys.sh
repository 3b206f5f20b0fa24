#!/usr/bin/env bash
# The schemes' tests share this: which keys a scheme needs, and what a run
# ended with. Source it behind lib.sh.

# A scheme that is not named here runs by its defaults: being in `list schemes`
# enrols it.
scheme_keys() { # scheme_keys SCHEME: keys with which 20 steps show what it does
  case $1 in
    d_psgd) echo --topology.kind=ring ;;
    choco) echo --topology.kind=ring --compress.kind=sign --choco.gamma=0.3 ;;
    dcd_psgd | ecd_psgd)
      echo --topology.kind=ring --compress.kind=qsgd --compress.bits=8 ;;
    deep_squeeze)
      echo --topology.kind=ring --compress.kind=top_k --compress.ratio=0.5 \
        --choco.gamma=0.2 ;;
    local_sgd) echo --local_sgd.steps=3 ;;
    easgd) echo --easgd.steps=3 ;;
    dgc) echo --compress.kind=top_k --compress.ratio=0.9 ;;
    ssp) echo --ssp.bound=1 ;;
    sync_switch)
      echo --sync_switch.order=10 --sync_switch.fractions=0.4,0.6 ;;
  esac
}

all_schemes() { "$SYNCOPATE" list schemes | awk '{ print $1 }'; }

# By default test_schemes.sh alone runs every scheme. Other scripts take one that
# sums gradients, one with a server, one that does both in turn, one whose workers
# step at their own pace, one with compressed messages between neighbours and one
# with compressed sums; all of them under EXHAUSTIVE=1.
schemes_of_each_kind() {
  if [[ -n ${EXHAUSTIVE:-} ]]; then
    all_schemes
  else
    printf '%s\n' bsp asp sync_switch esync choco dgc
  fi
}

# of_each_kind SCHEME...: those among them that schemes_of_each_kind names.
of_each_kind() { printf '%s\n' "$@" | grep -xFf <(schemes_of_each_kind); }

# same_states RUN RUN...: the newest checkpoints hold the same models and states.
same_states() { python "${here:?}/compare_states.py" "${@/#/runs/}"; }
