#include "reprise/kernels/cuda/cublas_lt_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace reprise::kernels::cuda {

LoadedCublasLt load_cublas_lt() {
  LoadedCublasLt loaded;
  // Loads the version of the header, because the types of other versions may differ.
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    loaded.reason = dlerror();
    return loaded;
  }
#define REPRISE_CUBLASLT_RESOLVE(member, symbol)                                      \
  loaded.api.member = reinterpret_cast<decltype(&::symbol)>(dlsym(library, #symbol)); \
  if (loaded.api.member == nullptr) loaded.reason = fmt::format("{} has no " #symbol, name);
  REPRISE_CUBLASLT_FUNCTIONS(REPRISE_CUBLASLT_RESOLVE)
#undef REPRISE_CUBLASLT_RESOLVE
  return loaded;
}

}  // namespace reprise::kernels::cuda
