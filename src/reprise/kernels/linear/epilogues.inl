// The products of all layouts but blocks, with further operations after the sums. The elements of x
// and of the weight have type X. Sums are rounded to T first, because separate kernels would store
// the product as T and read it again.
template <typename T, typename X = T>
void run_linear_add(const void* args, device::BlockRange range) noexcept {
  const auto& a = *static_cast<const LinearArguments*>(args);
  PanelProducts<X> products;
  for (LinearBlocks blocks(a, range, kMostLinearColumns); blocks.next();) {
    const LinearBlock& b = blocks.now();
    LinearColumns<X, T> columns;
    columns.append(a, b.column, b.columns);
    linear_rows(a, b, columns, products, [&](int64_t row, const float* sums) {
      T product[kMostLinearColumns];
      add_biases(sums, columns.bias, columns.size, product);
      add_row(static_cast<const T*>(a.residual) + row * a.residual_stride + b.column,
              product,
              static_cast<T*>(a.out) + row * a.columns + b.column,
              b.columns);
    });
  }
}

// A block of the grid multiplies with rows of both halves of the weight: first the gates of its
// columns, then the ups.
template <typename T, typename X = T>
void run_linear_silu_and_mul(const void* args, device::BlockRange range) noexcept {
  const auto& a = *static_cast<const LinearArguments*>(args);
  PanelProducts<X> products;
  for (LinearBlocks blocks(a, range, kMostLinearColumns / 2); blocks.next();) {
    const LinearBlock& b = blocks.now();
    LinearColumns<X, T> columns;
    columns.append(a, b.column, b.columns);
    columns.append(a, a.columns + b.column, b.columns);
    linear_rows(a, b, columns, products, [&](int64_t row, const float* sums) {
      T gate[kMostLinearColumns];
      add_biases(sums, columns.bias, columns.size, gate);
      T* out = static_cast<T*>(a.out) + row * a.columns + b.column;
      silu_and_mul_row(gate, gate + b.columns, out, b.columns);
    });
  }
}

// A block of the grid computes one head of its rows, because norm and rotation need a whole head.
template <typename T, typename X = T>
void run_linear_rope_kv_write(const void* args, device::BlockRange range) noexcept {
  const auto& a = *static_cast<const LinearRopeKvWriteArguments*>(args);
  const int64_t head_dim = a.to.head_dim;
  T heads[kMostLinearRows * kMaxLinearRopeHeadDim];
  PanelProducts<X> products;
  for (LinearBlocks blocks(a.product, range, head_dim); blocks.next();) {
    const LinearBlock& b = blocks.now();
    const auto head_of = [&](int64_t row) { return heads + (row - b.row) * head_dim; };
    for (int64_t c = 0; c < head_dim; c += kMostLinearColumns) {
      LinearColumns<X, T> columns;
      columns.append(a.product, b.column + c, min_of(kMostLinearColumns, head_dim - c));
      linear_rows(a.product, b, columns, products, [&](int64_t row, const float* sums) {
        add_biases(sums, columns.bias, columns.size, head_of(row) + c);
      });
    }
    const int64_t index = b.column / head_dim;
    const void* norm = norm_of_head(a.to, index);
    for (int64_t row = b.row; row < b.row + b.rows; ++row) {
      T* head = head_of(row);
      if (norm != nullptr) {
        rms_norm_row<T>(head, static_cast<const T*>(norm), head, head_dim, a.to.epsilon);
      }
      if (is_quantized(a.to, index)) {
        quantize_head<T>(a.to, row, index, head);
        continue;
      }
      T* place = place_of_head<T>(a.to, row, index);
      if (place != nullptr) place_head<T>(a.to, row, index, head, place);
    }
  }
}

// The same kernels for x and weights in int8. T is the type of the bias and of the result.
template <typename T>
void run_int8_linear(const void* args, device::BlockRange range) noexcept {
  run_linear<int8_t, T, T>(args, range);
}
template <typename T>
void run_int8_linear_add(const void* args, device::BlockRange range) noexcept {
  run_linear_add<T, int8_t>(args, range);
}
template <typename T>
void run_int8_linear_silu_and_mul(const void* args, device::BlockRange range) noexcept {
  run_linear_silu_and_mul<T, int8_t>(args, range);
}

// Each head has a matrix of its own.
template <typename T>
void run_head_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const HeadLinearArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t head = block / a.blocks_per_head;
    LinearArguments of_head = a.first_head;
    of_head.x = static_cast<const T*>(of_head.x) + head * a.x_head_stride;
    of_head.weight = static_cast<const T*>(of_head.weight) + head * of_head.columns * of_head.depth;
    const LinearBlock b = linear_block(of_head, static_cast<uint32_t>(block % a.blocks_per_head));
    LinearColumns<T> columns;
    columns.append(of_head, b.column, b.columns);
    const int64_t out_stride = a.heads * of_head.columns;
    T* out = static_cast<T*>(of_head.out) + b.row * out_stride + head * of_head.columns + b.column;
    linear_tile<T, T>(of_head, b.row, b.rows, columns, out, out_stride);
  }
}

// Sums of eight-bit numbers are scaled.
template <typename Out, typename Q>
void run_scaled_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ScaledLinearArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const LinearBlock b = linear_block(a.product, block);
    LinearColumns<Q, Out> columns;
    columns.append(a.product, b.column, b.columns);
    const float* weight_scale = a.weight_scale + b.column;
    const auto store_row = [&](int64_t r, const typename Dot<Q>::Result* sums) {
      const float scale = a.scale[(b.row + r) * a.scale_stride];
      Out* out = static_cast<Out*>(a.product.out) + (b.row + r) * a.product.columns + b.column;
      for (int64_t c = 0; c < b.columns; ++c) {
        const float scaled = static_cast<float>(sums[c]) * scale * weight_scale[c];
        store_element(out + c, scaled + columns.bias[c]);
      }
    };
    linear_sums(a.product, b.row, b.rows, columns, store_row);
  }
}
