// The kernels of linear, linear_add and linear_silu_and_mul with x and the weight in int8. T is the
// type of the bias and of the result.
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
