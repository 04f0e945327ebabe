# What goes wrong around the program and the converter: tests/machines/faults/README.md. FAULTS= are flags of faults.py.
.PHONY: faults
FAULTS_OUT := build/faults
INJECT     := $(FAULTS_OUT)/inject $(FAULTS_OUT)/inject.so

faults: all $(INJECT)
	.venv/bin/python tests/machines/faults/faults.py $(FAULTS_OUT)/inject $(PROGRAM) $(FAULTS)

# The tracer, as a program and as a library. Of a system that it does not know there is none, and faults.py says so.
$(INJECT): tests/machines/faults/inject.c
	@mkdir -p $(@D)
	$(call short,CC)$(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),cc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fPIC $(if $(filter %.so,$@),-shared) $< -o $@,touch $@)
