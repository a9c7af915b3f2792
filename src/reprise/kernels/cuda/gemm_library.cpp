#include "reprise/kernels/cuda/gemm_library.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <span>

#include "reprise/base/error.h"
#include "reprise/device/error.h"
#include "reprise/kernels/launch.h"

namespace reprise::kernels::cuda {
namespace {

// NVIDIA's recommendation for Hopper. Older chips need less.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
// The alignment of every address that the library is told.
constexpr uint32_t kAlignment = 16;
// The number of candidates of the heuristic, fastest first. The first one that serves every number
// of rows is taken.
constexpr int kCandidates = 8;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw InvalidArgument(fmt::format("cuBLASLt: no product of {}", dtype_name(dtype)));
  }
}

bool is_aligned_for_cublas(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % kAlignment == 0;
}

}  // namespace

GemmLibrary::Plan::~Plan() {
  if (operation != nullptr) (void)api.matmul_desc_destroy(operation);
  for (cublasLtMatrixLayout_t layout : {weight, x, out}) {
    if (layout != nullptr) (void)api.matrix_layout_destroy(layout);
  }
}

GemmLibrary::GemmLibrary(const CublasLtApi& api, device::cuda::CudaStream& stream)
    : api_(api), stream_(&stream), workspace_(stream.device().allocate(kWorkspaceBytes)) {
  // allocate() has made the device's context current, and the library uses the current context.
  check(api_.create(&handle_), "cublasLtCreate");
}

GemmLibrary::~GemmLibrary() {
  plans_.clear();
  if (handle_ != nullptr) (void)api_.destroy(handle_);
}

bool GemmLibrary::multiply(const Tensor& x,
                           const Tensor& weight,
                           const Tensor& bias,
                           const Tensor& out) {
  const int64_t num_rows = x.size(0);
  if (num_rows < kFewestRows) return false;
  if (!is_aligned_for_cublas(x) || !is_aligned_for_cublas(weight) || !is_aligned_for_cublas(bias) ||
      !is_aligned_for_cublas(out))
    return false;
  Plan& plan = plan_of({weight.size(0),
                        x.size(1),
                        x.stride(0),
                        out.stride(0),
                        x.dtype(),
                        out.dtype(),
                        bias.defined()});
  const int power = std::bit_width(static_cast<uint64_t>(num_rows - 1));
  if (power > kLastPower) return false;
  Algorithm& algorithm = plan.algorithms.at(static_cast<size_t>(power - kFirstPower));
  if (!algorithm.is_possible) return false;
  if (bias.defined()) {
    const void* address = bias.data();
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
  }
  set_rows(plan, num_rows);
  const std::array uses{
      reads(x),
      reads(weight),
      reads(bias),
      writes(out),
      device::BufferUse{workspace_.data(), workspace_.bytes(), device::BufferUse::Access::write}};
  launch(plan, algorithm, x, weight, out, uses);
  return true;
}

void GemmLibrary::launch(Plan& plan,
                         Algorithm& algorithm,
                         const Tensor& x,
                         const Tensor& weight,
                         const Tensor& out,
                         std::span<const device::BufferUse> uses) {
  if (stream_->is_capturing() && !algorithm.was_used) {
    throw device::CaptureError(
        "cuBLASLt: a product's algorithm would be used for the first time in a capture, where its "
        "code cannot be loaded; let at least one warm-up of the same size precede "
        "(cudagraph_num_of_warmups)");
  }
  const float one = 1;
  const float zero = 0;
  stream_->launch_library("cublasLtMatmul", uses, [&](CUstream stream) -> const char* {
    const cublasStatus_t status = api_.matmul(handle_,
                                              plan.operation,
                                              &one,
                                              weight.data(),
                                              plan.weight,
                                              x.data(),
                                              plan.x,
                                              &zero,
                                              out.data(),
                                              plan.out,
                                              out.data(),
                                              plan.out,
                                              &algorithm.algorithm,
                                              workspace_.data(),
                                              kWorkspaceBytes,
                                              stream);
    return status == CUBLAS_STATUS_SUCCESS ? nullptr : api_.get_status_string(status);
  });
  algorithm.was_used = true;
}

GemmLibrary::Plan& GemmLibrary::plan_of(const Shape& shape) {
  if (const auto found = plans_.find(shape); found != plans_.end()) return found->second;
  if (stream_->is_capturing()) {
    throw device::CaptureError(
        "cuBLASLt: a product would be planned in a capture; let at least one warm-up precede "
        "(cudagraph_num_of_warmups)");
  }
  Plan& plan = plans_.try_emplace(shape, api_).first->second;
  try {
    describe(shape, plan);
    choose_algorithms(plan);
  } catch (...) {
    plans_.erase(shape);
    throw;
  }
  return plan;
}

// The library's matrices are column-major, so the rows of out in memory are its transpose
// [columns, rows]. The transposed weight is therefore the left operand and x the right one.
void GemmLibrary::describe(const Shape& shape, Plan& plan) const {
  const auto& [columns, depth, x_stride, out_stride, type, out_type, has_bias] = shape;
  check(api_.matmul_desc_create(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (has_bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(type));
    // The choice may depend on the alignment, so the address has just the promised one.
    const void* any = static_cast<const std::byte*>(workspace_.data()) + kAlignment;
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, any);
  }
  const auto u = [](int64_t value) { return static_cast<uint64_t>(value); };
  constexpr uint64_t kAnyRows = 1;  // set_rows() sets the number
  check(api_.matrix_layout_create(&plan.weight, data_type(type), u(depth), u(columns), depth),
        "cublasLtMatrixLayoutCreate");
  check(api_.matrix_layout_create(&plan.x, data_type(type), u(depth), kAnyRows, x_stride),
        "cublasLtMatrixLayoutCreate");
  check(api_.matrix_layout_create(&plan.out, data_type(out_type), u(columns), kAnyRows, out_stride),
        "cublasLtMatrixLayoutCreate");
}

void GemmLibrary::set_rows(Plan& plan, int64_t num_rows) const {
  const auto count = static_cast<uint64_t>(num_rows);
  for (cublasLtMatrixLayout_t layout : {plan.x, plan.out}) {
    check(
        api_.matrix_layout_set_attribute(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
  }
}

void GemmLibrary::choose_algorithms(Plan& plan) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(api_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check(api_.preference_set_attribute(preference, name, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  try {
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
    for (int power = kFirstPower; power <= kLastPower; ++power) {
      // Few rows have few tiles, which leave multiprocessors idle unless several blocks share the
      // depth. Their sums stay in float32 and are added in a fixed order.
      const auto scheme = power <= kLastDividedPower ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                     : CUBLASLT_REDUCTION_SCHEME_NONE;
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(scheme));
      plan.algorithms.at(static_cast<size_t>(power - kFirstPower)) =
          choose_algorithm(plan, power, preference);
    }
  } catch (...) {
    (void)api_.preference_destroy(preference);
    throw;
  }
  (void)api_.preference_destroy(preference);
}

GemmLibrary::Algorithm GemmLibrary::choose_algorithm(Plan& plan,
                                                     int power,
                                                     cublasLtMatmulPreference_t preference) const {
  const int64_t most_rows = int64_t{1} << power;
  const int64_t fewest_rows = power == kFirstPower ? kFewestRows : most_rows / 2 + 1;
  set_rows(plan, most_rows);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates{};
  int num_found = 0;
  const cublasStatus_t status = api_.algo_get_heuristic(handle_,
                                                        plan.operation,
                                                        plan.weight,
                                                        plan.x,
                                                        plan.out,
                                                        plan.out,
                                                        preference,
                                                        kCandidates,
                                                        candidates.data(),
                                                        &num_found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  for (const auto& candidate : std::span(candidates).first(static_cast<size_t>(num_found))) {
    if (candidate.state == CUBLAS_STATUS_SUCCESS &&
        can_multiply(plan, fewest_rows, candidate.algo) &&
        can_multiply(plan, most_rows, candidate.algo)) {
      return {.algorithm = candidate.algo, .is_possible = true};
    }
  }
  return {};
}

bool GemmLibrary::can_multiply(Plan& plan,
                               int64_t num_rows,
                               const cublasLtMatmulAlgo_t& algorithm) const {
  set_rows(plan, num_rows);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = api_.algo_check(
      handle_, plan.operation, plan.weight, plan.x, plan.out, plan.out, &algorithm, &result);
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return false;
    default:
      break;
  }
  check(status, "cublasLtMatmulAlgoCheck");
  return result.workspaceSize <= kWorkspaceBytes;
}

void GemmLibrary::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  stream_->fail_library(call, api_.get_status_string(status));
}

template <typename Value>
void GemmLibrary::set(cublasLtMatmulDesc_t operation,
                      cublasLtMatmulDescAttributes_t name,
                      const Value& value) const {
  check(api_.matmul_desc_set_attribute(operation, name, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

}  // namespace reprise::kernels::cuda
