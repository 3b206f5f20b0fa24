// GELU, naively and in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate::reference {

double gelu(double x);
double gelu_derivative(double x);

}  // namespace syncopate::reference
