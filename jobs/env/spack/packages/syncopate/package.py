# syncopate from this checkout, as an environment whose spack.yaml is
#   spack:
#     specs: [syncopate@0.1.0 +cuda cuda_arch=90]
#     repos: [CHECKOUT/jobs/env/spack]
#     develop:
#       syncopate: {spec: syncopate@=0.1.0, path: CHECKOUT}
# and `spack -e . install`.
from spack.package import *


class Syncopate(CMakePackage, CudaPackage):
    """Trains deep networks under 17 synchronization schemes, with MPI and CUDA."""

    license("Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10: ~mpi +hl")
    depends_on("boost@1.74: +context +program_options cxxstd=17")
    depends_on("onednn@2.6: cpu_runtime=omp")
    depends_on("eigen@3.4:")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("xxhash@0.8:")
    depends_on("utf8proc@2.4:")
    depends_on("zlib-api")
    depends_on("libjpeg-turbo@2.1:")
    with when("+cuda"):
        depends_on("cuda@12.3:")
        depends_on("cudnn@9:")
        depends_on("nccl")

    conflicts("cuda_arch=none", when="+cuda", msg="name cuda_arch, such as 90")

    generator("ninja")

    def cmake_args(self):
        # Spack's compiler wrappers add the -march of the spec's target.
        args = [self.define_from_variant("SYNCOPATE_CUDA", "cuda"),
                self.define("SYNCOPATE_TESTS", False),
                self.define("SYNCOPATE_BUNDLE", False),
                self.define("SYNCOPATE_ARCH", "")]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("SYNCOPATE_CUDA_TARGETS", ";".join(
                self.spec.variants["cuda_arch"].value)))
        return args
