#include "library/descriptor.h"

namespace syncopate::cuda {

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnn().BackendCreateDescriptor(type, &raw_),
              "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (raw_ != nullptr) cudnn().BackendDestroyDescriptor(raw_);
}

void Descriptor::set(cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type,
                     int64_t count,
                     const void* values) {
  check_cudnn(cudnn().BackendSetAttribute(raw_, name, type, count, values),
              "cudnnBackendSetAttribute");
}

cudnnStatus_t Descriptor::get(cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type,
                              int64_t room,
                              int64_t* count,
                              void* values) const {
  return cudnn().BackendGetAttribute(raw_, name, type, room, count, values);
}

void Descriptor::finalize() {
  check_cudnn(cudnn().BackendFinalize(raw_), "cudnnBackendFinalize");
}

bool Descriptor::try_finalize() {
  return cudnn().BackendFinalize(raw_) == CUDNN_STATUS_SUCCESS;
}

}  // namespace syncopate::cuda
