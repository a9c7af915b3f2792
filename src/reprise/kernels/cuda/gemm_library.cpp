#include "reprise/kernels/cuda/gemm_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
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
    case DType::f8e4m3:
      return CUDA_R_8F_E4M3;
    case DType::i8:
      return CUDA_R_8I;
    case DType::i32:
      return CUDA_R_32I;
    default:
      throw InvalidArgument(fmt::format("cuBLASLt: no product of {}", dtype_name(dtype)));
  }
}

bool is_aligned_for_cublas(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % kAlignment == 0;
}

int power_of(int64_t num_rows) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(num_rows - 1)));
}

bool is_same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

/// What algorithms a search may find.
class GemmLibrary::Preference {
 public:
  explicit Preference(const GemmLibrary& library) : library_(&library) {
    library.check(library.api_.preference_create(&handle_), "cublasLtMatmulPreferenceCreate");
    try {
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
    } catch (...) {
      (void)library.api_.preference_destroy(handle_);
      throw;
    }
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  ~Preference() { (void)library_->api_.preference_destroy(handle_); }

  /// Few rows have few tiles, which leave multiprocessors idle unless several blocks share the
  /// depth. Their sums stay in float32 and are added in a fixed order.
  void set_rows(int64_t num_rows) {
    const auto scheme = num_rows <= int64_t{1} << kLastDividedPower
                            ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                            : CUBLASLT_REDUCTION_SCHEME_NONE;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(scheme));
  }
  [[nodiscard]] cublasLtMatmulPreference_t handle() const noexcept { return handle_; }

 private:
  template <typename Value>
  void set(cublasLtMatmulPreferenceAttributes_t name, Value value) {
    library_->check(library_->api_.preference_set_attribute(handle_, name, &value, sizeof value),
                    "cublasLtMatmulPreferenceSetAttribute");
  }

  const GemmLibrary* library_;  // the caller's
  cublasLtMatmulPreference_t handle_ = nullptr;
};

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

GemmLibrary::Choice GemmLibrary::choose(const Tensor& x,
                                        const Tensor& weight,
                                        const Tensor& bias,
                                        const Tensor& out,
                                        const CodeScales& scales,
                                        const cublasLtMatmulAlgo_t* chosen) {
  const int64_t num_rows = x.size(0);
  if (num_rows < (chosen == nullptr ? kFewestRows : 1)) return {};
  for (const Tensor* tensor : {&x, &weight, &bias, &out, &scales.x, &scales.weight}) {
    if (!is_aligned_for_cublas(*tensor)) return {};
  }
  const ScaleMode mode = !scales.x.defined()    ? ScaleMode::none
                         : scales.x.rank() == 1 ? ScaleMode::of_rows
                                                : ScaleMode::of_groups;
  Plan& plan = plan_of({weight.size(0),
                        x.size(1),
                        x.stride(0),
                        out.stride(0),
                        x.dtype(),
                        out.dtype(),
                        bias.defined(),
                        mode});
  if (num_rows % plan.row_step != 0) return {};
  Algorithm* const algorithm = algorithm_for(plan, num_rows, chosen);
  if (algorithm == nullptr) return {};
  return {.plan = &plan, .algorithm = algorithm};
}

bool GemmLibrary::can_multiply(const Tensor& x,
                               const Tensor& weight,
                               const Tensor& bias,
                               const Tensor& out,
                               const CodeScales& scales) {
  return choose(x, weight, bias, out, scales, nullptr).plan != nullptr;
}

bool GemmLibrary::multiply(const Tensor& x,
                           const Tensor& weight,
                           const Tensor& bias,
                           const Tensor& out,
                           const CodeScales& scales,
                           const cublasLtMatmulAlgo_t* chosen) {
  const Choice choice = choose(x, weight, bias, out, scales, chosen);
  if (choice.plan == nullptr) return false;
  Plan& plan = *choice.plan;
  const auto point = [&](cublasLtMatmulDescAttributes_t name, const Tensor& tensor) {
    const void* address = tensor.data();
    if (tensor.defined()) set(plan.operation, name, address);
  };
  point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  point(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.weight);
  point(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.x);
  set_rows(plan, x.size(0));
  const std::array uses{
      reads(x),
      reads(weight),
      reads(bias),
      reads(scales.x),
      reads(scales.weight),
      writes(out),
      device::BufferUse{workspace_.data(), workspace_.bytes(), device::BufferUse::Access::write}};
  launch(plan, *choice.algorithm, x, weight, out, uses);
  return true;
}

GemmLibrary::Algorithm* GemmLibrary::algorithm_for(Plan& plan,
                                                   int64_t num_rows,
                                                   const cublasLtMatmulAlgo_t* chosen) {
  if (chosen != nullptr) {
    for (Algorithm& known : plan.chosen) {
      if (is_same(known.algorithm, *chosen)) return &known;
    }
    if (!stream_->is_capturing() && serves(plan, num_rows, *chosen)) {
      return &plan.chosen.emplace_back(Algorithm{.algorithm = *chosen, .is_possible = true});
    }
    if (num_rows < kFewestRows) return nullptr;
  }
  const int power = power_of(num_rows);
  if (power > kLastPower) return nullptr;
  Algorithm& algorithm = plan.algorithms.at(static_cast<size_t>(power - kFirstPower));
  return algorithm.is_possible ? &algorithm : nullptr;
}

std::vector<cublasLtMatmulAlgo_t> GemmLibrary::candidates(const Shape& shape, int64_t num_rows) {
  Plan& plan = plan_of(shape);
  Preference preference(*this);
  return search(plan, num_rows, preference);
}

bool GemmLibrary::accepts(const Shape& shape,
                          int64_t num_rows,
                          const cublasLtMatmulAlgo_t& algorithm) {
  Plan& plan = plan_of(shape);
  if (!serves(plan, num_rows, algorithm)) return false;
  const bool is_known = std::ranges::any_of(
      plan.chosen, [&](const Algorithm& known) { return is_same(known.algorithm, algorithm); });
  if (!is_known) plan.chosen.push_back({.algorithm = algorithm, .is_possible = true});
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
  const int32_t integer_one = 1;
  const int32_t integer_zero = 0;
  const bool is_integer = plan.has_integer_sums;
  const void* alpha = is_integer ? static_cast<const void*>(&integer_one) : &one;
  const void* beta = is_integer ? static_cast<const void*>(&integer_zero) : &zero;
  stream_->launch_library("cublasLtMatmul", uses, [&](CUstream stream) -> const char* {
    const cublasStatus_t status = api_.matmul(handle_,
                                              plan.operation,
                                              alpha,
                                              weight.data(),
                                              plan.weight,
                                              x.data(),
                                              plan.x,
                                              beta,
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
  const auto& [columns, depth, x_stride, out_stride, type, out_type, has_bias, scales] = shape;
  plan.has_integer_sums = out_type == DType::i32;
  check(api_.matmul_desc_create(&plan.operation,
                                plan.has_integer_sums ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                                plan.has_integer_sums ? CUDA_R_32I : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (has_bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    // The type of the model. Products of codes with a bias are stored in it.
    set(plan.operation,
        CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        data_type(type == DType::f8e4m3 ? out_type : type));
    // The choice may depend on the alignment, so the address has just the promised one.
    const void* any = static_cast<const std::byte*>(workspace_.data()) + kAlignment;
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, any);
  }
  if (scales != ScaleMode::none) describe_scales(scales, plan);
  if (type == DType::f8e4m3 && scales != ScaleMode::of_groups) {
    // The tensor cores keep about 13 bits of a sum over the depth. By simulation that is an error
    // of 0.3 % in results whose activations, rounded to float8, have one of 2.6 % (decision 110).
    set(plan.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
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

void GemmLibrary::describe_scales(ScaleMode mode, Plan& plan) const {
  if (mode == ScaleMode::of_groups) plan.row_step = kGroupedRows;
  const auto library_mode =
      static_cast<int32_t>(mode == ScaleMode::of_rows ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
                                                      : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
  const void* any = static_cast<const std::byte*>(workspace_.data()) + kAlignment;
  set(plan.operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, library_mode);
  set(plan.operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, library_mode);
  set(plan.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, any);
  set(plan.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, any);
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
  Preference preference(*this);
  for (int power = kFirstPower; power <= kLastPower; ++power) {
    plan.algorithms.at(static_cast<size_t>(power - kFirstPower)) =
        choose_algorithm(plan, power, preference);
  }
}

std::vector<cublasLtMatmulAlgo_t> GemmLibrary::search(Plan& plan,
                                                      int64_t num_rows,
                                                      Preference& preference) const {
  preference.set_rows(num_rows);
  set_rows(plan, num_rows);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates{};
  int num_found = 0;
  const cublasStatus_t status = api_.algo_get_heuristic(handle_,
                                                        plan.operation,
                                                        plan.weight,
                                                        plan.x,
                                                        plan.out,
                                                        plan.out,
                                                        preference.handle(),
                                                        kCandidates,
                                                        candidates.data(),
                                                        &num_found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> found;
  for (const auto& candidate : std::span(candidates).first(static_cast<size_t>(num_found))) {
    if (candidate.state == CUBLAS_STATUS_SUCCESS) found.push_back(candidate.algo);
  }
  return found;
}

GemmLibrary::Algorithm GemmLibrary::choose_algorithm(Plan& plan,
                                                     int power,
                                                     Preference& preference) const {
  const int64_t most_rows = int64_t{1} << power;
  const int64_t above = power == kFirstPower ? kFewestRows : most_rows / 2 + 1;
  const int64_t fewest_rows = (above + plan.row_step - 1) / plan.row_step * plan.row_step;
  for (const cublasLtMatmulAlgo_t& candidate : search(plan, most_rows, preference)) {
    if (serves(plan, fewest_rows, candidate) && serves(plan, most_rows, candidate)) {
      return {.algorithm = candidate, .is_possible = true};
    }
  }
  return {};
}

bool GemmLibrary::serves(Plan& plan,
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
  check(api_.matmul_desc_set_attribute(
            operation, name, static_cast<const void*>(&value), sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

}  // namespace reprise::kernels::cuda
