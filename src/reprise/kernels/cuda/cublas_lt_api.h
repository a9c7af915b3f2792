#pragma once

#include <cublasLt.h>

#include <string>

namespace reprise::kernels::cuda {

/// Every function of cuBLASLt that is called: member, symbol. The symbol's type is the header's.
#define REPRISE_CUBLASLT_FUNCTIONS(X)                               \
  X(create, cublasLtCreate)                                         \
  X(destroy, cublasLtDestroy)                                       \
  X(get_status_string, cublasLtGetStatusString)                     \
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

/// The one way to cuBLASLt: a table of function pointers. Filled from the machine's library, or by
/// a test's fake.
struct CublasLtApi {
#define REPRISE_CUBLASLT_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  REPRISE_CUBLASLT_FUNCTIONS(REPRISE_CUBLASLT_MEMBER)
#undef REPRISE_CUBLASLT_MEMBER
};

/// The machine's library, or why there is none. Having none is an answer: products are then
/// computed by kernels of our own.
struct LoadedCublasLt {
  CublasLtApi api;
  std::string reason;  // empty if there is one
};

/// Opens the library, which stays open: where the system has libraries, then in the toolkit that
/// this was built with.
[[nodiscard]] LoadedCublasLt load_cublas_lt();

}  // namespace reprise::kernels::cuda
