#include "reprise/device/cuda/cuda_timer.h"

namespace reprise::device::cuda {

CudaTimer::CudaTimer(CudaDevice& device) : driver_(&device.driver()) {
  driver_->check(driver_->bound().event_create(&begin_, CU_EVENT_DEFAULT), "cuEventCreate");
  const CUresult result = driver_->bound().event_create(&end_, CU_EVENT_DEFAULT);
  if (result == CUDA_SUCCESS) return;
  (void)driver_->bound().event_destroy(begin_);  // there is no destructor for half an object
  driver_->check(result, "cuEventCreate");
}

CudaTimer::~CudaTimer() {
  (void)driver_->bound_noexcept().event_destroy(begin_);
  (void)driver_->bound_noexcept().event_destroy(end_);
}

void CudaTimer::record(CudaStream& stream, CUevent event) const {
  driver_->check(driver_->bound().event_record(event, stream.handle()), "cuEventRecord");
}

double CudaTimer::microseconds() const {
  driver_->check(driver_->bound().event_synchronize(end_), "cuEventSynchronize");
  float milliseconds = 0;
  driver_->check(driver_->bound().event_elapsed_time(&milliseconds, begin_, end_),
                 "cuEventElapsedTime");
  return 1e3 * static_cast<double>(milliseconds);
}

}  // namespace reprise::device::cuda
