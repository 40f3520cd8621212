#!/usr/bin/env node
console.log('holdfast')
