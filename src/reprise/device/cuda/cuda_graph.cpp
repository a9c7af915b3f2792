#include "reprise/device/cuda/cuda_graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/device/cuda/cuda_stream.h"

namespace reprise::device::cuda {
namespace {

// An estimate of the host memory that the driver keeps for one node. The driver's memory on the GPU
// is measured.
constexpr size_t kHostBytesPerNode = 1024;

struct Edge {
  size_t from;
  size_t to;
};

std::vector<CUgraphNode> node_handles(const Driver& driver, CUgraph graph) {
  size_t count = 0;
  driver.check(driver.bound().graph_get_nodes(graph, nullptr, &count), "cuGraphGetNodes");
  std::vector<CUgraphNode> handles(count);
  if (count > 0) {
    driver.check(driver.bound().graph_get_nodes(graph, handles.data(), &count), "cuGraphGetNodes");
  }
  return handles;
}

std::vector<Edge> edges_of(const Driver& driver,
                           CUgraph graph,
                           const std::vector<CUgraphNode>& handles) {
  size_t count = 0;
  driver.check(driver.bound().graph_get_edges(graph, nullptr, nullptr, nullptr, &count),
               "cuGraphGetEdges");
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> data(count);  // the driver needs this array if edges have data
  if (count > 0) {
    driver.check(driver.bound().graph_get_edges(graph, from.data(), to.data(), data.data(), &count),
                 "cuGraphGetEdges");
  }
  std::unordered_map<CUgraphNode, size_t> index_of;
  for (size_t i = 0; i < handles.size(); ++i) index_of.emplace(handles[i], i);
  std::vector<Edge> edges;
  for (size_t i = 0; i < count; ++i) edges.push_back({index_of.at(from[i]), index_of.at(to[i])});
  return edges;
}

/// Returns the indices in an order in which each node comes after all nodes that it waits for.
std::vector<size_t> order_of(size_t num_nodes, const std::vector<Edge>& edges) {
  std::vector<std::vector<size_t>> successors(num_nodes);
  std::vector<size_t> waits(num_nodes, 0);
  for (const Edge& edge : edges) {
    successors[edge.from].push_back(edge.to);
    ++waits[edge.to];
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < num_nodes; ++i) {
    if (waits[i] == 0) order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (size_t successor : successors[order[next]]) {
      if (--waits[successor] == 0) order.push_back(successor);
    }
  }
  return order;
}

NodeShape describe(CudaDevice& device, CUgraphNode handle) {
  const Driver& driver = device.driver();
  CUgraphNodeType type{};
  driver.check(driver.bound().graph_node_get_type(handle, &type), "cuGraphNodeGetType");
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS params{};
      driver.check(driver.bound().graph_kernel_node_get_params(handle, &params),
                   "cuGraphKernelNodeGetParams");
      std::string name = params.func != nullptr ? device.code().name_of(params.func)
                                                : std::string("(a library's kernel)");
      return {.kernel = std::move(name),
              .num_blocks = params.gridDimX * params.gridDimY * params.gridDimZ};
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return {.kernel = "copy", .num_blocks = 1};
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return {.kernel = "fill", .num_blocks = 1};
    default:
      return {.kernel = "(other)", .num_blocks = 1};
  }
}

std::vector<NodeShape> read_nodes(CudaDevice& device, CUgraph graph) {
  const Driver& driver = device.driver();
  const std::vector<CUgraphNode> handles = node_handles(driver, graph);
  const std::vector<Edge> edges = edges_of(driver, graph, handles);
  std::vector<NodeShape> nodes;
  size_t previous = handles.size();
  for (size_t index : order_of(handles.size(), edges)) {
    nodes.push_back(describe(device, handles[index]));
    nodes.back().waits_for_previous = std::ranges::any_of(
        edges, [&](const Edge& edge) { return edge.from == previous && edge.to == index; });
    previous = index;
  }
  return nodes;
}

bool same_shape(const std::vector<NodeShape>& a, const std::vector<NodeShape>& b) {
  return std::ranges::equal(a, b, [](const NodeShape& x, const NodeShape& y) {
    return x.kernel == y.kernel && x.num_blocks == y.num_blocks;
  });
}

}  // namespace

CudaGraph::CudaGraph(CudaDevice& device, CUgraph handle, CapturedLaunches launches)
    : device_(&device),
      handle_(handle),
      shapes_(read_nodes(device, handle)),
      launches_(std::move(launches)) {}

std::vector<GraphNode> CudaGraph::nodes() const {
  std::vector<GraphNode> nodes;
  nodes.reserve(shapes_.size());
  for (const NodeShape& shape : shapes_) {
    nodes.push_back({.kernel = shape.kernel,
                     .num_blocks = shape.num_blocks,
                     .waits_for_previous = shape.waits_for_previous});
  }
  launches_.describe(nodes);
  return nodes;
}

CudaGraph::~CudaGraph() { (void)device_->driver().bound_noexcept().graph_destroy(handle_); }

CudaGraphExec::CudaGraphExec(CudaDevice& device, const CudaGraph& graph)
    : device_(&device), shapes_(graph.shapes()) {
  const Driver& driver = device.driver();
  const size_t free_before = device.memory().free;
  driver.check(driver.bound().graph_instantiate(&handle_, graph.handle(), 0), "cuGraphInstantiate");
  try {
    upload();
    const size_t free_after = device.memory().free;
    bytes_ = sizeof(*this) + shapes_.size() * kHostBytesPerNode +
             (free_before > free_after ? free_before - free_after : 0);
  } catch (...) {
    (void)driver.bound_noexcept().graph_exec_destroy(handle_);
    throw;
  }
}

CudaGraphExec::~CudaGraphExec() {
  (void)device_->driver().bound_noexcept().graph_exec_destroy(handle_);
}

void CudaGraphExec::upload() const {
  const Driver& driver = device_->driver();
  const CUstream stream = device_->utility_stream();
  const RelaxedCaptureScope allowed(driver.bound());
  driver.check(driver.bound().graph_upload(handle_, stream), "cuGraphUpload");
  driver.check(driver.bound().stream_synchronize(stream), "cuStreamSynchronize");
}

void CudaGraphExec::launch(Stream& stream) {
  auto* cuda_stream = dynamic_cast<CudaStream*>(&stream);
  if (cuda_stream == nullptr) {
    throw DeviceError("cuda: a graph was launched on another device's stream");
  }
  cuda_stream->launch(handle_);
}

bool CudaGraphExec::update(const Graph& graph) {
  const auto* cuda_graph = dynamic_cast<const CudaGraph*>(&graph);
  // The driver would accept other grids and even other functions; the contract of Graph does not.
  if (cuda_graph == nullptr || !same_shape(shapes_, cuda_graph->shapes())) return false;
  const Driver& driver = device_->driver();
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = driver.bound().graph_exec_update(handle_, cuda_graph->handle(), &info);
  if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return false;
  driver.check(result, "cuGraphExecUpdate");
  return true;
}

}  // namespace reprise::device::cuda
