#include "reprise/kernels/int8_embedding/int8_embedding.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/int8_embedding/int8_embedding_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/int8_panels.h"

namespace reprise::kernels {

bool launch_int8_embedding(device::Stream& stream,
                           const KernelTable& kernels,
                           const Tensor& ids,
                           const Tensor& table,
                           const Tensor& out) {
  REPRISE_ASSERT(ids.is_dense() && out.is_dense() && table.dtype() == DType::i8_panels &&
                     table.size(1) == out.size(1) + kInt8TailBytes,
                 "int8_embedding: rows of {} into rows of {}",
                 table.type().to_string(),
                 out.type().to_string());
  const Int8EmbeddingArguments arguments = {
      .table = table.data_as<int8_t>(),
      .ids = ids.data_as<int32_t>(),
      .out = out.data(),
      .table_rows = table.size(0),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::whole_rows)};
  return launch(stream,
                kernel_for(kernels.int8_embedding, out.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(table), reads(ids)});
}

bool launch_int8_embedding(const OpRun& run) {
  const auto in = run.operands<OpCode::int8_embedding>();
  return launch_int8_embedding(run.stream, run.kernels, in["ids"], in["table"], run.out[0]);
}

}  // namespace reprise::kernels
