#pragma once

#include <cublasLt.h>

#include <string>

namespace reprise::kernels::cuda {

/// Every cuBLASLt function that this project calls: member, symbol. cublasLt.h gives the type.
#define REPRISE_CUBLASLT_FUNCTIONS(X)                               \
  X(create, cublasLtCreate)                                         \
  X(destroy, cublasLtDestroy)                                       \
  X(get_status_string, cublasLtGetStatusString)                     \
  X(get_version, cublasLtGetVersion)                                \
  X(matmul_desc_create, cublasLtMatmulDescCreate)                   \
  X(matmul_desc_destroy, cublasLtMatmulDescDestroy)                 \
  X(matmul_desc_set_attribute, cublasLtMatmulDescSetAttribute)      \
  X(matrix_layout_create, cublasLtMatrixLayoutCreate)               \
  X(matrix_layout_destroy, cublasLtMatrixLayoutDestroy)             \
  X(matrix_layout_set_attribute, cublasLtMatrixLayoutSetAttribute)  \
  X(preference_create, cublasLtMatmulPreferenceCreate)              \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy)            \
  X(preference_set_attribute, cublasLtMatmulPreferenceSetAttribute) \
  X(algo_get_heuristic, cublasLtMatmulAlgoGetHeuristic)             \
  X(algo_check, cublasLtMatmulAlgoCheck)                            \
  X(matmul, cublasLtMatmul)

/// All calls of cuBLASLt go through this table of function pointers. The machine's library fills
/// it, or the fake of a test.
struct CublasLtApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define REPRISE_CUBLASLT_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  REPRISE_CUBLASLT_FUNCTIONS(REPRISE_CUBLASLT_MEMBER)
#undef REPRISE_CUBLASLT_MEMBER
};

/// The machine's library, or the reason why there is none. Without the library, the project's own
/// kernels compute all matrix products.
struct LoadedCublasLt {
  CublasLtApi api;
  std::string reason;  // empty if there is a library
};

/// Opens the library: from the system's library folders, or from the toolkit of this build. It
/// stays open.
[[nodiscard]] LoadedCublasLt load_cublas_lt();

}  // namespace reprise::kernels::cuda
