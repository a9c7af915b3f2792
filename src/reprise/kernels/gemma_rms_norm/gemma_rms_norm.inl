template <typename T>
inline void gemma_rms_norm_row(const T* x, const T* weight, T* out, int64_t width, float epsilon) {
  const Vec scale = broadcast(rms_norm_scale(x, width, epsilon));
  const Vec one = broadcast(1.0F);
  for (int64_t i = 0; i < width; i += kLanes) {
    const int count = lanes_at(i, width);
    const Vec scaled = mul(load_some(x + i, count), scale);
    store_some(out + i, mul(scaled, add(one, load_some(weight + i, count))), count);
  }
}

template <typename T>
void run_gemma_rms_norm(const void* args, device::BlockRange blocks) noexcept {
  norm_rows<T>(args, blocks, gemma_rms_norm_row<T>);
}
