// Naive GELU in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate::reference {

double gelu(double x);
double gelu_derivative(double x);

}  // namespace syncopate::reference
