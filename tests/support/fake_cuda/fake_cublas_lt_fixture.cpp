#include "tests/support/fake_cuda/fake_cublas_lt_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <compare>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/fake_products_fixture.h"

namespace reprise::kernels::cuda {
namespace {

using fake_products::bytes_of;
using fake_products::element_bytes;
using fake_products::has_mode;
using fake_products::kScaledGroup;
using fake_products::Layout;
using fake_products::Operation;
using fake_products::Product;
using fake_products::refusal;

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t alignment = 256;  // the smallest alignment of the four matrices
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};

/// An algorithm that a search found. It describes itself, so that it can be stored and used by
/// another process, as the library's can.
struct Algorithm {
  uint64_t candidate = 0;     // the number of the candidate in its search
  uint64_t purpose = 0;       // see purpose_of()
  uint64_t most_columns = 0;  // of the result
  uint64_t workspace_bytes = 0;
  uint64_t alignment = 0;
  uint64_t reduction_schemes = 0;
  uint64_t unused = 0;
  uint64_t seal = 0;  // of the other members

  [[nodiscard]] uint64_t right_seal() const {
    uint64_t sum = 0x9E3779B97F4A7C15;
    for (uint64_t word : {candidate,
                          purpose,
                          most_columns,
                          workspace_bytes,
                          alignment,
                          reduction_schemes,
                          unused}) {
      sum = (sum ^ word) * 0x100000001B3 + 1;
    }
    return sum;
  }
  friend auto operator<=>(const Algorithm&, const Algorithm&) = default;
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

/// A number for an operation and its layouts, without addresses and the columns of the result.
uint64_t purpose_of(const Operation& operation,
                    const Layout& left,
                    const Layout& right,
                    const Layout& out) {
  std::string text;
  for (const int64_t number : {int64_t{operation.has_integers},
                               int64_t{operation.is_left_transposed},
                               int64_t{operation.is_right_transposed},
                               int64_t{operation.has_bias},
                               int64_t{operation.has_fast_sums},
                               int64_t{operation.bias_type},
                               int64_t{operation.left_mode},
                               int64_t{operation.right_mode},
                               static_cast<int64_t>(left.columns),
                               static_cast<int64_t>(right.rows)}) {
    text += fmt::format("{} ", number);
  }
  for (const Layout* layout : {&left, &right, &out}) {
    text += fmt::format("{} {} {} ", static_cast<int>(layout->type), layout->rows, layout->stride);
  }
  return std::hash<std::string>()(text);
}

}  // namespace

struct FakeCublasLt::State {
  explicit State(device::cuda::FakeDriver& driver_of_streams) : driver(&driver_of_streams) {}

  device::cuda::FakeDriver* driver;  // the driver that the constructor got
  CublasLtApi api;
  std::mutex mutex;                           // of the members below
  std::vector<double> candidate_times = {1};  // microseconds
  uint64_t num_searches = 0;
  std::set<Algorithm> used;
  uint64_t num_products = 0;
  uint64_t num_divided = 0;
  std::atomic<size_t> num_objects = 0;
  bool refuses = false;
  int capability = 90;
  size_t version = 130100;

  /// Returns the status that the call must return at once, or success to continue.
  cublasStatus_t enter(const char* call, bool is_allowed_in_captures = false) {
    if (!is_allowed_in_captures && driver->is_capturing()) {
      driver->add_misuse(fmt::format("{} in a capture", call));
    }
    return driver->enter(call) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                               : CUBLAS_STATUS_INTERNAL_ERROR;
  }
  cublasStatus_t misuse(const std::string& text) const {
    driver->add_misuse("cublasLtMatmul: " + text);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  void require_aligned(const char* what, const void* address, const Algorithm& algorithm) const {
    if (reinterpret_cast<uintptr_t>(address) % algorithm.alignment != 0) {
      (void)misuse(fmt::format("{} is not aligned to {} bytes", what, algorithm.alignment));
    }
  }
  void require_owned(const char* what, const void* address, size_t bytes) const {
    if (!driver->owns(address, bytes)) (void)misuse(fmt::format("{} is foreign memory", what));
  }
};

namespace {

FakeCublasLt::State* fake = nullptr;

#define FAKE_ENTER(...)                                                                          \
  const std::lock_guard lock(fake->mutex);                                                       \
  if (const cublasStatus_t failed = fake->enter(__VA_ARGS__); failed != CUBLAS_STATUS_SUCCESS) { \
    return failed;                                                                               \
  }

template <typename Object, typename Handle>
cublasStatus_t make(Handle* handle, Object object) {
  *handle = reinterpret_cast<Handle>(new Object(object));
  ++fake->num_objects;
  return CUBLAS_STATUS_SUCCESS;
}
// Destroys the object of a handle, whatever status is returned.
template <typename Object, typename Handle>
cublasStatus_t destroy_object(Handle handle, const char* call) {
  delete reinterpret_cast<Object*>(handle);
  --fake->num_objects;
  return fake->enter(call);
}
template <typename Object, typename Handle>
Object& object_of(Handle handle) {
  return *reinterpret_cast<Object*>(handle);
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  FAKE_ENTER("cublasLtCreate");
  return make<int>(handle, 0);
}
cublasStatus_t destroy(cublasLtHandle_t handle) {
  return destroy_object<int>(handle, "cublasLtDestroy");
}
size_t get_version() { return fake->version; }
const char* get_status_string(cublasStatus_t) { return "as the test asked"; }

cublasStatus_t matmul_desc_create(cublasLtMatmulDesc_t* handle,
                                  cublasComputeType_t compute,
                                  cudaDataType_t scale) {
  FAKE_ENTER("cublasLtMatmulDescCreate");
  const bool has_integers = compute == CUBLAS_COMPUTE_32I;
  if (!has_integers && compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_INVALID_VALUE;
  if (scale != (has_integers ? CUDA_R_32I : CUDA_R_32F)) return CUBLAS_STATUS_INVALID_VALUE;
  return make(handle, Operation{.has_integers = has_integers});
}
cublasStatus_t matmul_desc_destroy(cublasLtMatmulDesc_t handle) {
  return destroy_object<Operation>(handle, "cublasLtMatmulDescDestroy");
}
cublasStatus_t matmul_desc_set_attribute(cublasLtMatmulDesc_t handle,
                                         cublasLtMatmulDescAttributes_t name,
                                         const void* value,
                                         size_t bytes) {
  FAKE_ENTER("cublasLtMatmulDescSetAttribute", true);
  auto& operation = object_of<Operation>(handle);
  const auto copy = [&](auto& member) {
    if (bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(static_cast<void*>(&member), value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return copy(operation.at.bias);
  if (name == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) return copy(operation.at.left_scale);
  if (name == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) return copy(operation.at.right_scale);
  if (name == CUBLASLT_MATMUL_DESC_FAST_ACCUM) return copy(operation.has_fast_sums);
  int32_t number = 0;
  if (bytes != sizeof number) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&number, value, bytes);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      operation.is_left_transposed = number == CUBLAS_OP_T;
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      operation.is_right_transposed = number == CUBLAS_OP_T;
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      operation.has_bias = number == CUBLASLT_EPILOGUE_BIAS;
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      operation.bias_type = static_cast<cudaDataType_t>(number);
      break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      operation.left_mode = number;
      break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      operation.right_mode = number;
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t matrix_layout_create(cublasLtMatrixLayout_t* handle,
                                    cudaDataType type,
                                    uint64_t rows,
                                    uint64_t columns,
                                    int64_t stride) {
  FAKE_ENTER("cublasLtMatrixLayoutCreate");
  if (rows == 0 || columns == 0 || stride < static_cast<int64_t>(rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return make(handle, Layout{type, rows, columns, stride});
}
cublasStatus_t matrix_layout_destroy(cublasLtMatrixLayout_t handle) {
  return destroy_object<Layout>(handle, "cublasLtMatrixLayoutDestroy");
}
cublasStatus_t matrix_layout_set_attribute(cublasLtMatrixLayout_t handle,
                                           cublasLtMatrixLayoutAttribute_t name,
                                           const void* value,
                                           size_t bytes) {
  FAKE_ENTER("cublasLtMatrixLayoutSetAttribute", true);
  if (name != CUBLASLT_MATRIX_LAYOUT_COLS || bytes != sizeof(uint64_t)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&object_of<Layout>(handle).columns, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t preference_create(cublasLtMatmulPreference_t* handle) {
  FAKE_ENTER("cublasLtMatmulPreferenceCreate");
  return make(handle, Preference());
}
cublasStatus_t preference_destroy(cublasLtMatmulPreference_t handle) {
  return destroy_object<Preference>(handle, "cublasLtMatmulPreferenceDestroy");
}
cublasStatus_t preference_set_attribute(cublasLtMatmulPreference_t handle,
                                        cublasLtMatmulPreferenceAttributes_t name,
                                        const void* value,
                                        size_t bytes) {
  FAKE_ENTER("cublasLtMatmulPreferenceSetAttribute");
  auto& preference = object_of<Preference>(handle);
  const bool is_size = name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  if (bytes != (is_size ? sizeof(uint64_t) : sizeof(uint32_t))) return CUBLAS_STATUS_INVALID_VALUE;
  uint32_t number = 0;
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      std::memcpy(&preference.workspace_bytes, value, bytes);
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      std::memcpy(&preference.reduction_schemes, value, bytes);
      return CUBLAS_STATUS_SUCCESS;
    default:
      std::memcpy(&number, value, bytes);
      preference.alignment = std::min(preference.alignment, number);
      return CUBLAS_STATUS_SUCCESS;
  }
}

cublasStatus_t algo_get_heuristic(cublasLtHandle_t,
                                  cublasLtMatmulDesc_t operation,
                                  cublasLtMatrixLayout_t left,
                                  cublasLtMatrixLayout_t right,
                                  cublasLtMatrixLayout_t,
                                  cublasLtMatrixLayout_t out,
                                  cublasLtMatmulPreference_t preference,
                                  int num_wanted,
                                  cublasLtMatmulHeuristicResult_t* results,
                                  int* num_found) {
  FAKE_ENTER("cublasLtMatmulAlgoGetHeuristic");
  *num_found = 0;
  if (fake->refuses) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (num_wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (refusal(object_of<Operation>(operation),
              object_of<Layout>(left),
              object_of<Layout>(right),
              object_of<Layout>(out),
              fake->capability) != nullptr) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  ++fake->num_searches;
  const auto& wanted = object_of<Preference>(preference);
  Algorithm algorithm{.purpose = purpose_of(object_of<Operation>(operation),
                                            object_of<Layout>(left),
                                            object_of<Layout>(right),
                                            object_of<Layout>(out)),
                      .most_columns = object_of<Layout>(out).columns,
                      .workspace_bytes = wanted.workspace_bytes,
                      .alignment = wanted.alignment,
                      .reduction_schemes = wanted.reduction_schemes};
  const size_t found = std::min(static_cast<size_t>(num_wanted), fake->candidate_times.size());
  for (size_t i = 0; i < found; ++i) {
    algorithm.candidate = i;
    algorithm.seal = algorithm.right_seal();
    results[i] = {};
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].workspaceSize = algorithm.workspace_bytes;
    std::memcpy(&results[i].algo, &algorithm, sizeof algorithm);
  }
  *num_found = static_cast<int>(found);
  return CUBLAS_STATUS_SUCCESS;
}

/// Whether the algorithm was found for this operation, with at least as many columns of the result.
bool serves(const Algorithm& algorithm,
            const Operation& operation,
            const Layout& left,
            const Layout& right,
            const Layout& out) {
  return algorithm.seal == algorithm.right_seal() && out.columns <= algorithm.most_columns &&
         right.columns == out.columns && algorithm.candidate < fake->candidate_times.size() &&
         algorithm.purpose == purpose_of(operation, left, right, out);
}

Algorithm read_algorithm(const cublasLtMatmulAlgo_t& opaque) {
  return std::bit_cast<Algorithm>(opaque);
}

cublasStatus_t algo_check(cublasLtHandle_t,
                          cublasLtMatmulDesc_t operation,
                          cublasLtMatrixLayout_t left,
                          cublasLtMatrixLayout_t right,
                          cublasLtMatrixLayout_t,
                          cublasLtMatrixLayout_t out,
                          const cublasLtMatmulAlgo_t* algorithm,
                          cublasLtMatmulHeuristicResult_t* result) {
  FAKE_ENTER("cublasLtMatmulAlgoCheck");
  const Algorithm checked = read_algorithm(*algorithm);
  if (!serves(checked,
              object_of<Operation>(operation),
              object_of<Layout>(left),
              object_of<Layout>(right),
              object_of<Layout>(out)) ||
      refusal(object_of<Operation>(operation),
              object_of<Layout>(left),
              object_of<Layout>(right),
              object_of<Layout>(out),
              fake->capability) != nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  result->workspaceSize = checked.workspace_bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/// Why a product cannot be computed; nullptr: it can.
const char* refusal_of(const Product& product, const void* alpha, const void* beta) {
  const bool are_factors_known =
      product.operation.has_integers
          ? *static_cast<const int32_t*>(alpha) == 1 && *static_cast<const int32_t*>(beta) == 0
          : *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  if (!are_factors_known) return "factors other than 1 and 0";
  return refusal(product.operation,
                 product.left_layout,
                 product.right_layout,
                 product.out_layout,
                 fake->capability);
}

/// A bias and scales must be memory of the driver, and aligned to 16 bytes.
void require_bias_and_scales(const Product& product, const Algorithm& search) {
  const auto& [operation, at] = std::tie(product.operation, product.operation.at);
  if (operation.has_bias) {
    fake->require_aligned("the bias", at.bias, search);
    fake->require_owned(
        "the bias", at.bias, product.out_layout.rows * element_bytes(operation.bias_type));
  }
  if (at.left_scale == nullptr) return;
  const uint64_t groups = has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F)
                              ? (product.depth() + kScaledGroup - 1) / kScaledGroup
                              : 1;
  fake->require_aligned("the scales of the left operand", at.left_scale, search);
  fake->require_aligned("the scales of the right operand", at.right_scale, search);
  fake->require_owned(
      "the scales of the left operand", at.left_scale, groups * product.out_layout.rows * 4);
  fake->require_owned(
      "the scales of the right operand", at.right_scale, groups * product.out_layout.columns * 4);
}

cublasStatus_t matmul(cublasLtHandle_t,
                      cublasLtMatmulDesc_t operation,
                      const void* alpha,
                      const void* left,
                      cublasLtMatrixLayout_t left_layout,
                      const void* right,
                      cublasLtMatrixLayout_t right_layout,
                      const void* beta,
                      const void*,
                      cublasLtMatrixLayout_t,
                      void* out,
                      cublasLtMatrixLayout_t out_layout,
                      const cublasLtMatmulAlgo_t* algorithm,
                      void* workspace,
                      size_t workspace_bytes,
                      cudaStream_t stream) {
  FAKE_ENTER("cublasLtMatmul", true);
  if (algorithm == nullptr) return fake->misuse("no algorithm: it would be looked for");
  const Algorithm search = read_algorithm(*algorithm);
  Product product{.operation = object_of<Operation>(operation),
                  .left = left,
                  .left_layout = object_of<Layout>(left_layout),
                  .right = right,
                  .right_layout = object_of<Layout>(right_layout),
                  .out = out,
                  .out_layout = object_of<Layout>(out_layout)};
  if (!product.fits() || !serves(search,
                                 product.operation,
                                 product.left_layout,
                                 product.right_layout,
                                 product.out_layout)) {
    return fake->misuse("an algorithm that was found for another shape");
  }
  if (const char* reason = refusal_of(product, alpha, beta)) return fake->misuse(reason);
  const uint64_t schemes = search.reduction_schemes;
  const bool may_divide = product.out_layout.columns <= FakeCublasLt::kMostDividedColumns;
  if ((schemes & ~uint64_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) != 0 ||
      (schemes != 0 && !may_divide)) {
    return fake->misuse("an algorithm that may split sums of many rows, or round their parts");
  }
  if (!fake->used.contains(search) && fake->driver->is_capturing()) {
    return fake->misuse("an algorithm's first use is in a capture");
  }
  fake->used.insert(search);
  product.candidate = search.candidate;
  fake->require_aligned("the left operand", left, search);
  fake->require_aligned("the right operand", right, search);
  fake->require_aligned("the result", out, search);
  fake->require_owned("the left operand", left, bytes_of(product.left_layout));
  fake->require_owned("the right operand", right, bytes_of(product.right_layout));
  fake->require_owned("the result", out, bytes_of(product.out_layout));
  require_bias_and_scales(product, search);
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0 ||
      workspace_bytes < search.workspace_bytes) {
    return fake->misuse("a workspace that is too small or not aligned to 256 bytes");
  }
  fake->require_owned("the workspace", workspace, workspace_bytes);
  // Only sums of wide types are divided here.
  if (schemes != 0 && element_bytes(product.left_layout.type) > 1) {
    product.parts = static_cast<float*>(workspace);
    ++fake->num_divided;
  }
  ++fake->num_products;
  const double microseconds = fake->candidate_times.at(search.candidate);
  return fake->driver->submit(
             stream, [product] { product.run(); }, microseconds) == CUDA_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

FakeCublasLt::FakeCublasLt(device::cuda::FakeDriver& driver)
    : state_(std::make_unique<State>(driver)) {
  if (fake != nullptr) throw std::logic_error("there is a FakeCublasLt already");
  fake = state_.get();
#define FAKE_CUBLASLT_MEMBER(member, symbol) state_->api.member = member;
  REPRISE_CUBLASLT_FUNCTIONS(FAKE_CUBLASLT_MEMBER)
#undef FAKE_CUBLASLT_MEMBER
}

FakeCublasLt::~FakeCublasLt() { fake = nullptr; }

const CublasLtApi& FakeCublasLt::api() const noexcept { return state_->api; }
uint64_t FakeCublasLt::num_products() const noexcept { return state_->num_products; }
uint64_t FakeCublasLt::num_divided_products() const noexcept { return state_->num_divided; }
uint64_t FakeCublasLt::num_searches() const noexcept { return state_->num_searches; }
size_t FakeCublasLt::num_objects() const noexcept { return state_->num_objects; }
void FakeCublasLt::set_capability(int capability) noexcept { state_->capability = capability; }
void FakeCublasLt::set_candidates(std::vector<double> microseconds) {
  state_->candidate_times = std::move(microseconds);
}
void FakeCublasLt::set_version(size_t version) noexcept { state_->version = version; }
void FakeCublasLt::refuse(bool refuses) noexcept { state_->refuses = refuses; }

}  // namespace reprise::kernels::cuda
