#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "reprise/device/cuda/primary_contexts.h"

namespace reprise::device::cuda {

/// Every function of the CUDA driver that this project calls: member, symbol. The types come from
/// the CUDA header, so a table for another CUDA version does not compile.
#define REPRISE_CUDA_DRIVER_FUNCTIONS(X)                             \
  X(init, cuInit)                                                    \
  X(driver_get_version, cuDriverGetVersion)                          \
  X(get_error_name, cuGetErrorName)                                  \
  X(get_error_string, cuGetErrorString)                              \
  X(device_get, cuDeviceGet)                                         \
  X(device_get_count, cuDeviceGetCount)                              \
  X(device_get_name, cuDeviceGetName)                                \
  X(device_get_attribute, cuDeviceGetAttribute)                      \
  X(device_total_mem, cuDeviceTotalMem)                              \
  X(device_primary_ctx_retain, cuDevicePrimaryCtxRetain)             \
  X(ctx_set_current, cuCtxSetCurrent)                                \
  X(mem_alloc, cuMemAlloc)                                           \
  X(mem_free, cuMemFree)                                             \
  X(mem_host_alloc, cuMemHostAlloc)                                  \
  X(mem_free_host, cuMemFreeHost)                                    \
  X(mem_get_info, cuMemGetInfo)                                      \
  X(mem_get_allocation_granularity, cuMemGetAllocationGranularity)   \
  X(mem_address_reserve, cuMemAddressReserve)                        \
  X(mem_address_free, cuMemAddressFree)                              \
  X(mem_create, cuMemCreate)                                         \
  X(mem_release, cuMemRelease)                                       \
  X(mem_map, cuMemMap)                                               \
  X(mem_unmap, cuMemUnmap)                                           \
  X(mem_set_access, cuMemSetAccess)                                  \
  X(memcpy_htod_async, cuMemcpyHtoDAsync)                            \
  X(memcpy_dtoh_async, cuMemcpyDtoHAsync)                            \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync)                            \
  X(memset_d8_async, cuMemsetD8Async)                                \
  X(stream_create, cuStreamCreate)                                   \
  X(stream_destroy, cuStreamDestroy)                                 \
  X(stream_synchronize, cuStreamSynchronize)                         \
  X(stream_wait_event, cuStreamWaitEvent)                            \
  X(stream_is_capturing, cuStreamIsCapturing)                        \
  X(stream_begin_capture, cuStreamBeginCapture)                      \
  X(stream_end_capture, cuStreamEndCapture)                          \
  X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode) \
  X(event_create, cuEventCreate)                                     \
  X(event_destroy, cuEventDestroy)                                   \
  X(event_record, cuEventRecord)                                     \
  X(event_elapsed_time, cuEventElapsedTime)                          \
  X(event_query, cuEventQuery)                                       \
  X(event_synchronize, cuEventSynchronize)                           \
  X(module_load_data, cuModuleLoadData)                              \
  X(module_unload, cuModuleUnload)                                   \
  X(module_get_function, cuModuleGetFunction)                        \
  X(func_get_attribute, cuFuncGetAttribute)                          \
  X(func_set_attribute, cuFuncSetAttribute)                          \
  X(func_get_name, cuFuncGetName)                                    \
  X(launch_kernel, cuLaunchKernelEx)                                 \
  X(graph_destroy, cuGraphDestroy)                                   \
  X(graph_get_nodes, cuGraphGetNodes)                                \
  X(graph_get_edges, cuGraphGetEdges)                                \
  X(graph_node_get_type, cuGraphNodeGetType)                         \
  X(graph_kernel_node_get_params, cuGraphKernelNodeGetParams)        \
  X(graph_instantiate, cuGraphInstantiate)                           \
  X(graph_upload, cuGraphUpload)                                     \
  X(graph_launch, cuGraphLaunch)                                     \
  X(graph_exec_update, cuGraphExecUpdate)                            \
  X(graph_exec_destroy, cuGraphExecDestroy)

/// The only access to the driver: a table of function pointers. The machine's library or a test's
/// fake driver fills it, so that every path of the host code runs without a GPU. Copies share the
/// contexts that any of them has retained.
struct DriverApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define REPRISE_CUDA_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  REPRISE_CUDA_DRIVER_FUNCTIONS(REPRISE_CUDA_MEMBER)
#undef REPRISE_CUDA_MEMBER
  std::shared_ptr<PrimaryContexts> contexts = std::make_shared<PrimaryContexts>();
};

/// A driver, or the reason why it could not be loaded.
struct LoadedDriver {
  DriverApi api;
  std::string reason;  // empty when there is a driver
};

/// The machine's driver. The first call opens its library, which stays open; all calls return the
/// same functions and contexts. A machine without a driver is not an error.
[[nodiscard]] LoadedDriver load_driver();

}  // namespace reprise::device::cuda
