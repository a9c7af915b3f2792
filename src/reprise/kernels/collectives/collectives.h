#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/op_run.h"
#include "reprise/parallel/communicator.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The launches of the collective ops on a CPU. A kernel exchanges bytes through the communicator
/// of the executor, so it is a node of a graph like any other kernel, and each replay exchanges
/// anew. Sums are added in the order of the ranks, in float32, and rounded once: every rank gets
/// the same bits in every run.
///
/// A kernel cannot throw. If the exchange fails, the results are undefined, and
/// Communicator::check() reports the failure after the step.

/// out = the sum of x over the ranks. `parts` is memory for x of every rank: [ranks, elements].
void launch_all_reduce(device::Stream& stream,
                       parallel::Communicator& ranks,
                       const Tensor& x,
                       const Tensor& parts,
                       const Tensor& out);

/// out = this rank's rows of the sum of x over the ranks: rank 0 has the first rows. `parts` is
/// memory of the size of x.
void launch_reduce_scatter(device::Stream& stream,
                           parallel::Communicator& ranks,
                           const Tensor& x,
                           const Tensor& parts,
                           const Tensor& out);

/// out = x of rank 0, 1, ... one after the other.
void launch_all_gather(device::Stream& stream,
                       parallel::Communicator& ranks,
                       const Tensor& x,
                       const Tensor& out);

/// Row r of out = row r of x of rank 0, 1, ... side by side, cut to the width of out, for the rows
/// r < num_rows[0].
void launch_gather_columns(device::Stream& stream,
                           parallel::Communicator& ranks,
                           const Tensor& x,         // [rows, columns], dense
                           const Tensor& num_rows,  // int32[1]
                           const Tensor& parts,     // [ranks, rows, columns]
                           const Tensor& out);      // [rows, width], dense

}  // namespace reprise::kernels
