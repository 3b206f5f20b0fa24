# shellcheck shell=bash disable=SC2034
# What one cluster needs beside jobs/train.sbatch. Copy to jobs/sites/NAME.sh,
# edit, and submit with   SITE=jobs/sites/NAME.sh sbatch jobs/train.sbatch ...
#
# Account and partition are options of sbatch, which reads its environment:
#   export SBATCH_ACCOUNT=my_project SBATCH_PARTITION=compute

# Modules of the MPI that syncopate was linked to (MPICH or one of its ABI).
if command -v module >/dev/null; then
  module purge
  module load gcc mpich hdf5
fi

mpi=pmi2                      # srun --mpi=list shows what this Slurm has
srun_options=(--cpu-bind=cores)
syncopate=build/release/syncopate
