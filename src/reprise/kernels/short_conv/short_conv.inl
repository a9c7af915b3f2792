// A row of x is [B | C | values], of `channels` elements each.
template <typename T>
void run_short_conv(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const CausalConv1dArguments*>(args);
  for_each_channel_vector<T>(
      a, blocks, [&a](const RequestTokens& tokens, int64_t channel, int count) {
        const T* b = static_cast<const T*>(a.x) + channel;
        const T* c = b + a.channels;
        const T* values = c + a.channels;
        T* out = static_cast<T*>(a.out) + channel;
        const auto part = [&](const T* columns, int64_t token) {
          return load_some(columns + token * a.x_stride, count);
        };
        convolve_channels<T>(
            a,
            tokens,
            channel,
            count,
            [&](int64_t token) { return mul(part(b, token), part(values, token)); },
            [&](int64_t token, Vec sum) {
              store_some(out + token * a.channels, mul(part(c, token), sum), count);
            });
      });
}
