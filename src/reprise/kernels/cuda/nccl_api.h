#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <string>

namespace reprise::kernels::cuda {

// The types of NCCL's C interface that this project uses. No toolkit has NCCL's header, so they are
// declared here. Source: the documentation of NCCL 2.32, "NCCL API"; values and sizes were compared
// with nccl.h of 2.32.3, and have been the same since 2.13.

/// ncclResult_t. NCCL may return other values.
enum class NcclResult : int {  // NOLINT(performance-enum-size): the type of C
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// ncclDataType_t: exchanges only move bytes.
enum class NcclType : int { int8 = 0 };  // NOLINT(performance-enum-size): the type of C

/// ncclUniqueId: the name of a communicator, which its ranks share. Passed by value.
struct NcclUniqueId {
  std::array<char, 128> bytes;
};
static_assert(sizeof(NcclUniqueId) == 128);

/// ncclComm_t points to it.
struct NcclComm;

/// Every function of NCCL that this project calls: member, symbol, result, arguments.
#define REPRISE_NCCL_FUNCTIONS(X)                                                               \
  X(get_version, ncclGetVersion, NcclResult, (int* version))                                    \
  X(get_unique_id, ncclGetUniqueId, NcclResult, (NcclUniqueId * id))                            \
  X(comm_init_rank,                                                                             \
    ncclCommInitRank,                                                                           \
    NcclResult,                                                                                 \
    (NcclComm * *comm, int num_ranks, NcclUniqueId id, int rank))                               \
  X(comm_destroy, ncclCommDestroy, NcclResult, (NcclComm * comm))                               \
  X(comm_abort, ncclCommAbort, NcclResult, (NcclComm * comm))                                   \
  X(comm_get_async_error, ncclCommGetAsyncError, NcclResult, (NcclComm * comm, NcclResult * e)) \
  X(get_error_string, ncclGetErrorString, const char*, (NcclResult result))                     \
  X(get_last_error, ncclGetLastError, const char*, (NcclComm * comm))                           \
  X(all_gather,                                                                                 \
    ncclAllGather,                                                                              \
    NcclResult,                                                                                 \
    (const void* from,                                                                          \
     void* to,                                                                                  \
     size_t count_of_rank,                                                                      \
     NcclType type,                                                                             \
     NcclComm* comm,                                                                            \
     CUstream stream))                                                                          \
  X(send,                                                                                       \
    ncclSend,                                                                                   \
    NcclResult,                                                                                 \
    (const void* from, size_t count, NcclType type, int peer, NcclComm* comm, CUstream stream)) \
  X(recv,                                                                                       \
    ncclRecv,                                                                                   \
    NcclResult,                                                                                 \
    (void* to, size_t count, NcclType type, int peer, NcclComm* comm, CUstream stream))         \
  X(group_start, ncclGroupStart, NcclResult, ())                                                \
  X(group_end, ncclGroupEnd, NcclResult, ())

/// All calls of NCCL go through this table of function pointers. The machine's library fills it, or
/// the fake of a test.
struct NcclApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define REPRISE_NCCL_MEMBER(member, symbol, Result, arguments) Result(*member) arguments = nullptr;
  REPRISE_NCCL_FUNCTIONS(REPRISE_NCCL_MEMBER)
#undef REPRISE_NCCL_MEMBER
};

/// The machine's library, or the reason why there is none.
struct LoadedNccl {
  NcclApi api;
  int version = 0;     // 22809 is 2.28.9
  std::string reason;  // empty if there is a library
};

/// "2.28.9".
[[nodiscard]] std::string nccl_version_text(int version);

/// Why this version of NCCL cannot be used; empty if it can.
[[nodiscard]] std::string why_not_usable_nccl(int version);

/// Opens libnccl.so.2 from the system's library folders or from LD_LIBRARY_PATH. It stays open.
/// Only programs with several ranks need it.
[[nodiscard]] LoadedNccl load_nccl();

}  // namespace reprise::kernels::cuda
