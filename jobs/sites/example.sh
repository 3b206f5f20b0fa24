# shellcheck shell=bash disable=SC2034
# What one cluster needs, and the one file to edit: copy it to jobs/sites/site.sh
# (or anywhere, and export SITE=FILE). jobs/submit.sh and jobs/sweep.sh --slurm
# read it where they are called, every job reads it again on its node.

# Options of sbatch that the site wants: it reads them from SBATCH_...; they
# count for more than #SBATCH lines, and less than the command line. Several
# partitions, as cpu,gpu, mean the first that can run the job.
export SBATCH_ACCOUNT=my_project
export SBATCH_PARTITION=compute

# Modules of the MPI that syncopate was linked to (MPICH or one of its ABI).
if command -v module >/dev/null; then
  module purge
  module load gcc mpich hdf5
fi

mpi=pmi2                      # srun --mpi=list shows what this Slurm has
srun_options=(--cpu-bind=cores)
# syncopate=/path/to/syncopate  # else $SYNCOPATE, or the build of this checkout

# Hosts with one rank each and no faster network than TCP: without these two, two
# ranks that sum 4 MiB at 100 Mbit/s had 62% of the link where they have 98%
# (ring), and four had 63% where they have 99% (native); see tests/bench/README.md,
# "On limited links". Not for several ranks a host: there the first made the ring
# seven times slower.
# export UCX_RNDV_THRESH=inf
# export MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM=tsp_ring
