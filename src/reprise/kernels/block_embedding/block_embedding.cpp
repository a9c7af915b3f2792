#include "reprise/kernels/block_embedding/block_embedding.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/block_embedding/block_embedding_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::kernels {

bool launch_block_embedding(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& ids,
                            const Tensor& weight,
                            const Tensor& out) {
  REPRISE_ASSERT(ids.is_dense() && weight.is_dense() && out.is_dense() &&
                     read_panel_header(weight).depth == out.size(1),
                 "block_embedding: rows of {} into rows of {}",
                 weight.type().to_string(),
                 out.size(1));
  const BlockEmbeddingArguments arguments = {
      .weight = weight.data_as<uint8_t>(),
      .ids = ids.data_as<int32_t>(),
      .out = out.data(),
      .num_columns = weight.size(0),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::whole_rows)};
  return launch(stream,
                kernel_for(kernels.block_embedding, out.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(weight), reads(ids)});
}

bool launch_block_embedding(const OpRun& run) {
  const auto in = run.operands<OpCode::block_embedding>();
  return launch_block_embedding(run.stream, run.kernels, in["ids"], in["weight"], run.out[0]);
}

}  // namespace reprise::kernels
