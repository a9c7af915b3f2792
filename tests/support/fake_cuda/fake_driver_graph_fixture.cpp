#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

#include <algorithm>

namespace reprise::device::cuda::fake_driver {

CUresult graph_destroy(CUgraph graph) {
  REPRISE_FAKE_RELEASE("cuGraphDestroy");
  if (!fake->graphs.has(graph)) return fake->misuse("cuGraphDestroy of no graph");
  fake->graphs.erase(graph);
  return result;
}

// Returns the nodes in reverse order, so that callers cannot rely on the order.
CUresult graph_get_nodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  REPRISE_FAKE_ENTER("cuGraphGetNodes");
  const auto& all = reinterpret_cast<const Graph*>(handle)->nodes;
  for (size_t i = 0; nodes != nullptr && i < std::min(*count, all.size()); ++i) {
    nodes[i] = reinterpret_cast<CUgraphNode>(all[all.size() - 1 - i].get());
  }
  *count = all.size();
  return CUDA_SUCCESS;
}

CUresult graph_get_edges(
    CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  REPRISE_FAKE_ENTER("cuGraphGetEdges");
  const auto& all = reinterpret_cast<const Graph*>(handle)->nodes;
  size_t next = 0;
  for (const auto& node : all) {
    for (size_t waits_for : node->waits_for) {
      if (from != nullptr && next < *count) {
        from[next] = reinterpret_cast<CUgraphNode>(all[waits_for].get());
        to[next] = reinterpret_cast<CUgraphNode>(node.get());
        data[next] = {};
      }
      ++next;
    }
  }
  *count = next;
  return CUDA_SUCCESS;
}

CUresult graph_node_get_type(CUgraphNode node, CUgraphNodeType* type) {
  REPRISE_FAKE_ENTER("cuGraphNodeGetType");
  *type = reinterpret_cast<const Node*>(node)->type;
  return CUDA_SUCCESS;
}

CUresult graph_kernel_node_get_params(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* params) {
  REPRISE_FAKE_ENTER("cuGraphKernelNodeGetParams");
  const auto* node = reinterpret_cast<const Node*>(handle);
  *params = {};
  params->func = node->function;
  params->gridDimX = node->num_blocks;
  params->gridDimY = params->gridDimZ = 1;
  params->blockDimX = node->threads_per_block;
  return CUDA_SUCCESS;
}

namespace {

Graph clone(const Graph& graph) {
  Graph copy;
  for (const auto& node : graph.nodes) copy.nodes.push_back(std::make_shared<Node>(*node));
  return copy;
}

}  // namespace

CUresult graph_instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  REPRISE_FAKE_ENTER("cuGraphInstantiate");
  const size_t bytes = bytes_of_executable(reinterpret_cast<const Graph*>(graph)->nodes.size());
  if (bytes > fake->free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  *exec = reinterpret_cast<CUgraphExec>(
      fake->executables.make(clone(*reinterpret_cast<const Graph*>(graph))));
  return CUDA_SUCCESS;
}

CUresult graph_upload(CUgraphExec exec, CUstream) {
  REPRISE_FAKE_ENTER("cuGraphUpload");
  return fake->executables.has(exec) ? CUDA_SUCCESS : fake->misuse("cuGraphUpload of no graph");
}

CUresult graph_launch(CUgraphExec handle, CUstream stream) {
  REPRISE_FAKE_ENTER("cuGraphLaunch");
  if (!fake->executables.has(handle) || !fake->streams.has(stream)) {
    return fake->misuse("cuGraphLaunch of what does not exist");
  }
  if (reinterpret_cast<Stream*>(stream)->capture != nullptr) {
    return fake->misuse("cuGraphLaunch on a capturing stream");
  }
  for (const auto& node : reinterpret_cast<const Graph*>(handle)->nodes) {
    fake->push(reinterpret_cast<Stream*>(stream)->queue, {.node = node});
  }
  return CUDA_SUCCESS;
}

CUresult graph_exec_update(CUgraphExec exec, CUgraph handle, CUgraphExecUpdateResultInfo* info) {
  REPRISE_FAKE_ENTER("cuGraphExecUpdate");
  auto& old = *reinterpret_cast<Graph*>(exec);
  const auto& graph = *reinterpret_cast<const Graph*>(handle);
  const bool fits = std::ranges::equal(old.nodes, graph.nodes, [](const auto& a, const auto& b) {
    return a->type == b->type && a->waits_for == b->waits_for && a->function == b->function;
  });
  info->result = fits ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!fits) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  old = clone(graph);
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec exec) {
  REPRISE_FAKE_RELEASE("cuGraphExecDestroy");
  if (!fake->executables.has(exec)) return fake->misuse("cuGraphExecDestroy of no graph");
  fake->executables.erase(exec);
  return result;
}

}  // namespace reprise::device::cuda::fake_driver
