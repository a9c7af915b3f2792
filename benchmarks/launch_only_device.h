#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/device/device.h"

namespace reprise::benchmark {

/// A stream whose launches return at once, like those of a GPU: a launch puts its arguments into a
/// queue that nothing reads. So the time of a step on it is the host's work alone. Captures work as
/// on the device inside, and replaying a graph puts one entry into the queue.
class LaunchOnlyStream final : public device::Stream {
 public:
  LaunchOnlyStream(device::Device& device, std::unique_ptr<device::Stream> inner) noexcept
      : device_(&device), inner_(std::move(inner)) {}

  void launch(const device::Launch& launch) override {
    if (inner_->is_capturing()) {
      inner_->launch(launch);
    } else if (launch.num_blocks > 0) {
      submit(launch.args.data(), launch.args.size());
      ++counters_.kernel_launches;
    }
  }
  void launch_graph(const void* graph) {
    submit(reinterpret_cast<const std::byte*>(&graph), sizeof graph);
    ++counters_.graph_launches;
  }
  void copy(void* destination, const void* source, size_t bytes) override {
    inner_->copy(destination, source, bytes);
  }
  void fill(void* destination, std::byte value, size_t bytes) override {
    inner_->fill(destination, value, bytes);
  }
  void copy_from_host(void* destination, const void* source, size_t bytes) override {
    inner_->copy_from_host(destination, source, bytes);
  }
  void copy_to_host(void* destination, const void* source, size_t bytes) override {
    inner_->copy_to_host(destination, source, bytes);
  }
  void record(device::Event& event) override { inner_->record(event); }
  void wait(const device::Event& event) override { inner_->wait(event); }
  void synchronize() override { inner_->synchronize(); }
  void begin_capture() override { inner_->begin_capture(); }
  [[nodiscard]] std::unique_ptr<device::Graph> end_capture() override {
    return inner_->end_capture();
  }
  void abort_capture() noexcept override { inner_->abort_capture(); }
  [[nodiscard]] bool is_capturing() const noexcept override { return inner_->is_capturing(); }
  [[nodiscard]] const device::LaunchCounters& counters() const noexcept override {
    return counters_;
  }
  [[nodiscard]] device::Device& device() const noexcept override { return *device_; }

 private:
  void submit(const std::byte* args, size_t bytes) noexcept {
    if (used_ + device::kMaxLaunchArgumentBytes > queue_.size()) used_ = 0;
    std::memcpy(queue_.data() + used_, args, std::min(bytes, device::kMaxLaunchArgumentBytes));
    used_ += bytes;
  }

  device::Device* device_;  // made this stream
  std::unique_ptr<device::Stream> inner_;
  device::LaunchCounters counters_;
  std::array<std::byte, size_t{1} << 16> queue_{};
  size_t used_ = 0;
};

class LaunchOnlyGraph final : public device::GraphExec {
 public:
  explicit LaunchOnlyGraph(std::unique_ptr<device::GraphExec> inner) noexcept
      : inner_(std::move(inner)) {}

  void launch(device::Stream& stream) override {
    dynamic_cast<LaunchOnlyStream&>(stream).launch_graph(inner_.get());
  }
  [[nodiscard]] size_t num_nodes() const noexcept override { return inner_->num_nodes(); }
  [[nodiscard]] size_t bytes() const noexcept override { return inner_->bytes(); }
  [[nodiscard]] bool update(const device::Graph& graph) override { return inner_->update(graph); }

 private:
  std::unique_ptr<device::GraphExec> inner_;
};

/// Memory and captures are those of the CPU device inside, whose kernels never run.
class LaunchOnlyDevice final : public device::Device {
 public:
  explicit LaunchOnlyDevice(std::unique_ptr<device::Device> inner) noexcept
      : inner_(std::move(inner)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "launch-only"; }
  [[nodiscard]] std::string description() const override {
    return "kernels are launched and never run";
  }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return true; }
  [[nodiscard]] device::Buffer allocate(size_t bytes) override { return inner_->allocate(bytes); }
  [[nodiscard]] std::unique_ptr<device::MemoryPool> create_pool() override {
    return inner_->create_pool();
  }
  [[nodiscard]] std::unique_ptr<device::Stream> create_stream() override {
    return std::make_unique<LaunchOnlyStream>(*this, inner_->create_stream());
  }
  [[nodiscard]] std::unique_ptr<device::Event> create_event() override {
    return inner_->create_event();
  }
  [[nodiscard]] std::unique_ptr<device::GraphExec> instantiate(
      const device::Graph& graph) override {
    return std::make_unique<LaunchOnlyGraph>(inner_->instantiate(graph));
  }
  [[nodiscard]] device::MemoryInfo memory() const override { return inner_->memory(); }

 protected:
  void free(device::BufferView) noexcept override {}  // buffers belong to the device inside

 private:
  std::unique_ptr<device::Device> inner_;
};

}  // namespace reprise::benchmark
