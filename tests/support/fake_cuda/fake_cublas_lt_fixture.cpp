#include "tests/support/fake_cuda/fake_cublas_lt_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/base/element.h"

namespace reprise::kernels::cuda {
namespace {

/// What a call may change between a search and a product.
struct Addresses {
  const void* bias = nullptr;
  const float* left_scale = nullptr;
  const float* right_scale = nullptr;

  friend bool operator==(const Addresses&, const Addresses&) = default;
};

struct Operation {
  bool has_integers = false;
  bool is_left_transposed = false;
  bool is_right_transposed = false;
  bool has_bias = false;
  bool has_fast_sums = false;
  cudaDataType_t bias_type = CUDA_R_32F;
  int32_t left_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  int32_t right_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  Addresses at;

  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t stride = 0;  // between columns

  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t alignment = 256;  // the smallest alignment of the four matrices
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};

/// An operation with its layouts, for which a search found an algorithm.
struct Search {
  Operation operation;  // the addresses do not matter
  Layout left;
  Layout right;
  Layout out;
  Preference preference;
  bool was_used = false;
};

size_t element_bytes(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_8I:
    case CUDA_R_8F_E4M3:
      return 1;
    default:
      return 2;
  }
}

size_t bytes_of(const Layout& layout) {
  return (static_cast<size_t>(layout.stride) * (layout.columns - 1) + layout.rows) *
         element_bytes(layout.type);
}

float read(const void* data, cudaDataType_t type, int64_t index) {
  switch (type) {
    case CUDA_R_16BF:
      return to_float(static_cast<const BFloat16*>(data)[index]);
    case CUDA_R_16F:
      return to_float(static_cast<const Float16*>(data)[index]);
    case CUDA_R_8F_E4M3:
      return to_float(static_cast<const Float8E4M3*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void write(void* data, cudaDataType_t type, int64_t index, float value) {
  switch (type) {
    case CUDA_R_16BF:
      store_element(static_cast<BFloat16*>(data) + index, value);
      break;
    case CUDA_R_16F:
      store_element(static_cast<Float16*>(data) + index, value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

constexpr uint64_t kScaledGroup = 128;

bool has_mode(const Operation& operation, cublasLtMatmulMatrixScale_t mode) {
  return operation.left_mode == mode && operation.right_mode == mode;
}

/// The first column of the table of cublasLtMatmul() that a call violates; nullptr: none. cuBLAS
/// library documentation of CUDA 13: "cublasLtMatmul()" and "Narrow Precision Data Types Usage".
const char* refusal(const Operation& operation,
                    const Layout& left,
                    const Layout& right,
                    const Layout& out,
                    int capability) {
  const bool is_transposed_left = operation.is_left_transposed && !operation.is_right_transposed;
  const bool has_scales = operation.at.left_scale != nullptr || operation.at.right_scale != nullptr;
  const auto are_multiples = [](std::initializer_list<uint64_t> numbers, uint64_t of) {
    return std::ranges::all_of(numbers, [&](uint64_t number) { return number % of == 0; });
  };
  const auto stride = [](const Layout& layout) { return static_cast<uint64_t>(layout.stride); };
  if (left.type != right.type) return "operands of two types";
  if (operation.has_integers || left.type == CUDA_R_8I || out.type == CUDA_R_32I) {
    if (!operation.has_integers || left.type != CUDA_R_8I || out.type != CUDA_R_32I) {
      return "int8, sums and results of other types than int32";
    }
    if (!is_transposed_left || has_scales || operation.has_bias) return "int8: not in TN, or more";
    return are_multiples({left.columns, left.rows, stride(left), stride(right), stride(out)}, 4)
               ? nullptr
               : "int8: sizes that are no multiples of 4";
  }
  if (left.type != CUDA_R_8F_E4M3) {
    return has_scales || operation.has_fast_sums ? "scales of wide types" : nullptr;
  }
  if (capability < 89) return "float8: the GPU has none";
  if (!is_transposed_left) return "float8: not in TN";
  const uint64_t out_bytes = element_bytes(out.type);
  if (!are_multiples(
          {left.columns, left.rows, stride(left), stride(right), stride(out) * out_bytes}, 16)) {
    return "float8: sizes that are no multiples of 16";
  }
  const bool is_wide = out.type == CUDA_R_32F;
  if (operation.has_bias && operation.bias_type != (is_wide ? CUDA_R_16BF : out.type)) {
    return "float8: a bias of another type";
  }
  if (has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F)) return nullptr;
  if (capability != 90) return "float8: scales that only Hopper takes";
  if (has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)) return nullptr;
  if (!has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F)) return "float8: other scales";
  if (operation.has_fast_sums) return "float8: fast sums of groups";
  return are_multiples({left.columns, right.columns}, 4)
             ? nullptr
             : "float8: groups need numbers of rows that are multiples of 4";
}

/// One matrix product with all arguments of its call.
struct Product {
  Operation operation;
  const void* left = nullptr;
  Layout left_layout;
  const void* right = nullptr;
  Layout right_layout;
  void* out = nullptr;
  Layout out_layout;
  // Nullptr: the sums are not divided. Otherwise [2, columns, rows], in the workspace.
  float* parts = nullptr;

  [[nodiscard]] uint64_t depth() const {
    return operation.is_left_transposed ? left_layout.rows : left_layout.columns;
  }
  [[nodiscard]] bool fits() const {
    const auto& [l, r, d] = std::tie(left_layout, right_layout, out_layout);
    return (operation.is_left_transposed ? l.columns : l.rows) == d.rows &&
           (operation.is_right_transposed ? r.columns : r.rows) == depth() &&
           (operation.is_right_transposed ? r.rows : r.columns) == d.columns;
  }
  void run() const {
    const auto at = [](const Layout& layout, bool is_transposed, uint64_t row, uint64_t column) {
      if (is_transposed) std::swap(row, column);
      return static_cast<int64_t>(row) + static_cast<int64_t>(column) * layout.stride;
    };
    if (operation.has_integers) return run_integers();
    const auto sum_of = [&](uint64_t row, uint64_t column, uint64_t begin, uint64_t end) {
      float sum = 0;
      for (uint64_t k = begin; k < end; ++k) {
        sum += read(left, left_layout.type, at(left_layout, operation.is_left_transposed, row, k)) *
               read(right,
                    right_layout.type,
                    at(right_layout, operation.is_right_transposed, k, column));
      }
      return sum;
    };
    const auto scaled_sum_of = [&](uint64_t row, uint64_t column) {
      const float* l = operation.at.left_scale;
      const float* r = operation.at.right_scale;
      if (l == nullptr) return sum_of(row, column, 0, depth());
      if (has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)) {
        return l[row] * r[column] * sum_of(row, column, 0, depth());
      }
      float sum = 0;
      for (uint64_t k = 0; k < depth(); k += kScaledGroup) {
        const uint64_t group = k / kScaledGroup;
        sum += l[group * out_layout.rows + row] * r[group * out_layout.columns + column] *
               sum_of(row, column, k, std::min(k + kScaledGroup, depth()));
      }
      return sum;
    };
    const uint64_t results = out_layout.columns * out_layout.rows;
    const uint64_t middle = depth() / 2;
    for (uint64_t i = 0; parts != nullptr && i < results; ++i) {
      const uint64_t row = i % out_layout.rows;
      parts[i] = sum_of(row, i / out_layout.rows, 0, middle);
      parts[results + i] = sum_of(row, i / out_layout.rows, middle, depth());
    }
    for (uint64_t i = 0; i < results; ++i) {
      const uint64_t row = i % out_layout.rows;
      const uint64_t column = i / out_layout.rows;
      float sum = parts != nullptr ? parts[i] + parts[results + i] : scaled_sum_of(row, column);
      if (operation.has_bias) {
        sum += read(operation.at.bias, operation.bias_type, static_cast<int64_t>(row));
      }
      write(out, out_layout.type, at(out_layout, false, row, column), sum);
    }
  }
  /// \pre the left operand is transposed, and the right one is not
  void run_integers() const {
    const auto* codes = static_cast<const int8_t*>(left);
    const auto* more = static_cast<const int8_t*>(right);
    for (uint64_t column = 0; column < out_layout.columns; ++column) {
      for (uint64_t row = 0; row < out_layout.rows; ++row) {
        int32_t sum = 0;
        for (uint64_t k = 0; k < depth(); ++k) {
          sum += int32_t{codes[row * static_cast<uint64_t>(left_layout.stride) + k]} *
                 more[column * static_cast<uint64_t>(right_layout.stride) + k];
        }
        static_cast<int32_t*>(out)[column * static_cast<uint64_t>(out_layout.stride) + row] = sum;
      }
    }
  }
};

}  // namespace

struct FakeCublasLt::State {
  explicit State(device::cuda::FakeDriver& driver_of_streams) : driver(&driver_of_streams) {}

  device::cuda::FakeDriver* driver;  // the driver that the constructor got
  CublasLtApi api;
  std::mutex mutex;  // of the members below
  std::vector<Search> searches;
  uint64_t num_products = 0;
  uint64_t num_divided = 0;
  std::atomic<size_t> num_objects = 0;
  bool refuses = false;
  int capability = 90;

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
  void require_aligned(const char* what, const void* address, const Search& search) const {
    if (reinterpret_cast<uintptr_t>(address) % search.preference.alignment != 0) {
      (void)misuse(fmt::format("{} is not aligned to {} bytes", what, search.preference.alignment));
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
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].workspaceSize = object_of<Preference>(preference).workspace_bytes;
  results[0].algo.data[0] = fake->searches.size();
  fake->searches.push_back({.operation = object_of<Operation>(operation),
                            .left = object_of<Layout>(left),
                            .right = object_of<Layout>(right),
                            .out = object_of<Layout>(out),
                            .preference = object_of<Preference>(preference)});
  *num_found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/// Whether the search for the algorithm was for this operation, with at least as many columns of
/// the result.
bool serves(
    const Search& search, Operation operation, const Layout& left, Layout right, Layout out) {
  operation.at = search.operation.at;
  if (out.columns > search.out.columns) return false;
  out.columns = search.out.columns;
  right.columns = search.right.columns;
  return std::tie(operation, left, right, out) ==
         std::tie(search.operation, search.left, search.right, search.out);
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
  const Search& search = fake->searches.at(algorithm->data[0]);
  if (!serves(search,
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
  result->workspaceSize = search.preference.workspace_bytes;
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
void require_bias_and_scales(const Product& product, const Search& search) {
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
  Search& search = fake->searches.at(algorithm->data[0]);
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
  const uint32_t schemes = search.preference.reduction_schemes;
  const bool may_divide = product.out_layout.columns <= FakeCublasLt::kMostDividedColumns;
  if ((schemes & ~uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) != 0 ||
      (schemes != 0 && !may_divide)) {
    return fake->misuse("an algorithm that may split sums of many rows, or round their parts");
  }
  if (!search.was_used && fake->driver->is_capturing()) {
    return fake->misuse("an algorithm's first use is in a capture");
  }
  search.was_used = true;
  fake->require_aligned("the left operand", left, search);
  fake->require_aligned("the right operand", right, search);
  fake->require_aligned("the result", out, search);
  fake->require_owned("the left operand", left, bytes_of(product.left_layout));
  fake->require_owned("the right operand", right, bytes_of(product.right_layout));
  fake->require_owned("the result", out, bytes_of(product.out_layout));
  require_bias_and_scales(product, search);
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0 ||
      workspace_bytes < search.preference.workspace_bytes) {
    return fake->misuse("a workspace that is too small or not aligned to 256 bytes");
  }
  fake->require_owned("the workspace", workspace, workspace_bytes);
  // Only sums of wide types are divided here.
  if (schemes != 0 && element_bytes(product.left_layout.type) > 1) {
    product.parts = static_cast<float*>(workspace);
    ++fake->num_divided;
  }
  ++fake->num_products;
  return fake->driver->submit(stream, [product] { product.run(); }) == CUDA_SUCCESS
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
uint64_t FakeCublasLt::num_searches() const noexcept { return state_->searches.size(); }
size_t FakeCublasLt::num_objects() const noexcept { return state_->num_objects; }
void FakeCublasLt::set_capability(int capability) noexcept { state_->capability = capability; }
void FakeCublasLt::refuse(bool refuses) noexcept { state_->refuses = refuses; }

}  // namespace reprise::kernels::cuda
