# shellcheck shell=bash disable=SC2034
# The settings of one cluster, in one file: copy it to jobs/sites/site.sh (or
# elsewhere, and export SITE=FILE) and edit the copy. jobs/submit.sh and
# jobs/sweep.sh --slurm read it, and every job reads it again on its node.

# Options of sbatch, which reads them from SBATCH_... variables. They override
# #SBATCH lines and are overridden by the command line. Of several partitions
# (cpu,gpu) Slurm takes the first that can run the job.
export SBATCH_ACCOUNT=my_project
export SBATCH_PARTITION=compute

# Modules of the MPI that syncopate was linked to (MPICH, or one with its ABI).
if command -v module >/dev/null; then
  module purge
  module load gcc mpich hdf5
fi

mpi=pmi2                      # srun --mpi=list shows what this Slurm has
srun_options=(--cpu-bind=cores)
# syncopate=/path/to/syncopate  # else the build of this checkout; $SYNCOPATE wins

# Where runs go unless an input has run.directory, and what runs/ stands for in
# a sweep's directory: a file system for large files.
# export SYNCOPATE_RUNS=${SYNCOPATE_RUNS:-$SCRATCH/runs}

# For hosts with one rank each and no network faster than TCP: these settings
# raised the share of a 100 Mbit/s link that a sum of 4 MiB uses from 62% to 98%
# (two ranks, ring) and from 63% to 99% (four ranks, native); see "On limited
# links" in tests/bench/README.md. Do not use them with several ranks per host,
# where the first one made the ring seven times slower.
# export UCX_RNDV_THRESH=inf
# export MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM=tsp_ring
