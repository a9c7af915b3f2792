// The expected values are those of the PyPI package `gguf` (tools/make_gguf_goldens.py).

#include "reprise/weights/gguf/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/files/safetensors.h"
#include "tests/support/source_dir.h"

namespace reprise::weights::gguf {
namespace {

TEST(Dequantize, gives_the_bits_of_the_reference_for_every_format) {
  const SafetensorsFile goldens(
      InputFile::open(std::string(source_dir()) + "/tests/goldens/gguf/blocks.safetensors"));
  int num_formats = 0;
  for (const TensorEntry& tensor : goldens.tensors()) {
    if (!tensor.name.ends_with(".blocks")) continue;
    const std::string name = tensor.name.substr(0, tensor.name.find('.'));
    SCOPED_TRACE(name);
    BlockFormat format{};
    for (uint32_t number = 0; number < 64; ++number) {
      const auto known = block_format_of(number);
      if (known && block_format_name(*known) == name) format = *known;
    }
    ASSERT_EQ(block_format_name(format), name);
    EXPECT_NE(std::string(block_format_list()).find(name), std::string::npos);
    ASSERT_EQ(tensor.spec.shape[1], block_size(format).bytes);

    std::vector<std::byte> blocks(tensor.size_bytes());
    goldens.read(tensor, 0, blocks);
    const TensorEntry* values = goldens.find(name + ".values");
    ASSERT_NE(values, nullptr);
    std::vector<float> expected(values->size_bytes() / sizeof(float));
    goldens.read(*values, 0, std::as_writable_bytes(std::span(expected)));

    std::vector<float> actual(expected.size());
    dequantize(format, blocks, actual);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
          << "element " << i << ": " << actual[i] << " instead of " << expected[i];
    }
    ++num_formats;
  }
  EXPECT_EQ(num_formats, 16);
}

}  // namespace
}  // namespace reprise::weights::gguf
