#include "app/commands.h"

int main(int argc, char** argv) {
  syncopate::run_program(argc, argv);
}
