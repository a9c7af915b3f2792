#include "reprise/kernels/embedding/embedding.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/embedding/embedding_arguments.h"
#include "reprise/kernels/gather_rows/gather_rows.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {
namespace {

const device::Kernel& kernel_of(const KernelTable& kernels, const Tensor& table) {
  switch (table.layout().family) {
    case WeightFamily::column_panels:
      return kernels.panel_embedding;
    case WeightFamily::int8_panels:
      return kernel_for(kernels.int8_embedding, table.dtype());
    case WeightFamily::block_panels:
      return kernel_for(kernels.block_embedding, table.dtype());
    default:
      throw InvalidArgument(
          fmt::format("embedding: no kernel for a table of {}", table.type().to_string()));
  }
}

}  // namespace

bool launch_embedding(device::Stream& stream,
                      const KernelTable& kernels,
                      const Tensor& ids,
                      const Tensor& table,
                      const Tensor& out) {
  if (table.layout().is_rows()) return launch_gather_rows(stream, kernels, table, ids, out);
  REPRISE_ASSERT(ids.is_dense() && out.is_dense() && table.size(1) == out.size(1),
                 "embedding: rows of {} do not fit results of {}, or a tensor is not dense",
                 table.type().to_string(),
                 out.type().to_string());
  const EmbeddingArguments arguments = {
      .table = table.data_as<uint8_t>(),
      .ids = ids.data_as<int32_t>(),
      .out = out.data(),
      .table_rows = table.size(0),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::whole_rows)};
  return launch(stream,
                kernel_of(kernels, table),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(table), reads(ids)});
}

bool launch_embedding(const OpRun& run) {
  const auto in = run.operands<OpCode::embedding>();
  return launch_embedding(run.stream, run.kernels, in["ids"], in["table"], run.out[0]);
}

}  // namespace reprise::kernels
