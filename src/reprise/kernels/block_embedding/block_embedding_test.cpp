#include "reprise/kernels/block_embedding/block_embedding.h"

#include <vector>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"

namespace reprise::kernels {
namespace {

class BlockEmbedding : public KernelTest {};

TEST_P(BlockEmbedding, looks_up_the_elements_of_every_format) {
  for (const PanelFormat format : all_panel_formats()) {
    SCOPED_TRACE(static_cast<int>(format));
    const std::vector<PanelPart> parts = {{.format = format, .columns = 18},
                                          {.format = PanelFormat::q8_0, .columns = 5}};
    const Tensor weight = make(packed_weight_type(parts, 256).shape, DType::i8);
    fill_packed_weight(weight, parts, 256, random_);
    const std::vector<int> rows = {0, 17, 3, 18, 22, 3, -1, 23, 16};
    const Tensor out = make({9, 256});
    launch_block_embedding(stream_, kernels(), ints(rows), weight, out);
    const Tensor want = make_ref({9, 256});
    for (size_t r = 0; r < rows.size(); ++r) {
      const bool is_inside = rows[r] >= 0 && rows[r] < 23;
      for (int64_t i = 0; i < 256; ++i) {
        set_element(want,
                    is_inside ? panel_element(weight.data_as<uint8_t>(), rows[r], i) : 0.0,
                    static_cast<int64_t>(r),
                    i);
      }
    }
    expect_close(out, want, 1.01 * rounding_error(dtype()), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockEmbedding,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
