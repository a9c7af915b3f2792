#include "reprise/kernels/panel_embedding/panel_embedding.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/panel_embedding/panel_embedding_arguments.h"

namespace reprise::kernels {

bool launch_panel_embedding(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& ids,
                            const Tensor& table,
                            const Tensor& out) {
  REPRISE_ASSERT(ids.is_dense() && out.is_dense() && table.dtype() == DType::bf16_panels &&
                     table.size(1) == out.size(1),
                 "panel_embedding: rows of {} into rows of {}",
                 table.type().to_string(),
                 out.type().to_string());
  const PanelEmbeddingArguments arguments = {
      .table = table.data(),
      .ids = ids.data_as<int32_t>(),
      .out = out.data(),
      .table_rows = table.size(0),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::whole_rows)};
  return launch(stream,
                kernels.panel_embedding,
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(table), reads(ids)});
}

bool launch_panel_embedding(const OpRun& run) {
  const auto in = run.operands<OpCode::panel_embedding>();
  return launch_panel_embedding(run.stream, run.kernels, in["ids"], in["table"], run.out[0]);
}

}  // namespace reprise::kernels
